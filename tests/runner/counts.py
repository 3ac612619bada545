# SPDX-License-Identifier: Apache-2.0
"""What was counted, and what is said of it: passed, failed, skipped, not tested, passed at the second try."""


class Count:
    """Passed, failed and skipped test cases."""

    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def __str__(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def passed_if(well):
    """One that has passed, or else one that has failed."""
    return Count(passed=int(well), failed=int(not well))


def say(text=''):
    print(text, flush=True)


not_tested = {}
passed_at_second_try = []


def left_out(name, reason):
    """For the last lines: what was not tested, and why."""
    not_tested.setdefault(reason, []).append(name)


def say_not_tested():
    if not_tested:
        say('\nNot tested:')
    for reason, names in not_tested.items():
        say(f'  {reason}: {", ".join(names)}')


def say_passed_at_second_try():
    if passed_at_second_try:
        say('\nFailed, and passed when they were run again, alone (each may be a defect that shows seldom; what they said is above):')
    for name in passed_at_second_try:
        say(f'  {name}')
