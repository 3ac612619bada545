# SPDX-License-Identifier: Apache-2.0
"""Reads what meson says of tests: while they run, and in its log afterwards."""
import json
import re

from counts import Count, passed_if, say

SUMMARY = re.compile(r'\[doctest\] test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed \| +(\d+) skipped')
FOR_GOOD = re.compile(r'Sanitizer|runtime error: |SIGSEGV|SIGABRT|SIGBUS|SIGFPE|Segmentation fault')
# Tests of real jobs depend on how fast a shared machine starts them: so many that fail are tried once more, alone, and named at the end.
MOST_RUN_AGAIN = 3


def records_in(logs, log_name):
    """The lines of a log that meson has written, which is removed."""
    lines = (logs / f'{log_name}.json').read_text().splitlines() if (logs / f'{log_name}.json').exists() else []
    for file in logs.glob(f'{log_name}*'):
        file.unlink()
    return [json.loads(line) for line in lines]


def name_of(record):
    """The test's own name, before which meson's log has the project and the suites."""
    return record['name'].rpartition(' / ')[2]


def what_it_said(record):
    return ((record.get('stdout') or '') + (record.get('stderr') or '')).strip()


def count_of(record):
    """How many test cases one line of meson's log stands for: those that doctest counted, or one."""
    ok = record['result'] in ('OK', 'EXPECTEDFAIL')
    summary = SUMMARY.search(record.get('stdout') or '')
    if not summary:
        return Count(skipped=1) if record['result'] == 'SKIP' else passed_if(ok)
    _, passed, failed, skipped = map(int, summary.groups())
    return Count(passed, failed if ok or failed else 1, skipped)


def reasons_of(record):
    """Why a test, or a part of it, was skipped: those that are skipped say so, a program as a whole by its last line."""
    said = (record.get('stdout') or '').strip()
    reasons = re.findall(r'skipped: (.+)', said)
    if record['result'] == 'SKIP' and not reasons:
        reasons = said.splitlines()[-1:] or ['it does not say why']
    return dict.fromkeys(reasons)


def to_run_again(records):
    """The names of the tests that have failed, where they are so few that the machine may have been too slow for them. What
    crashes, and what a sanitizer has found, has failed for good."""
    failed = [record for record in records if count_of(record).failed]
    if len(failed) > MOST_RUN_AGAIN:
        return []
    # What takes too long is killed, by a signal.
    ended = [record for record in failed if record['result'] == 'TIMEOUT' or 0 <= record.get('returncode', 0) < 128]
    return [name_of(record) for record in ended if not FOR_GOOD.search(what_it_said(record))]


def show_failures(lines, progress):
    """Passes on what meson says of failed tests when they end, and with `progress` that others have ended."""
    failing = False
    for line in lines:
        if line.startswith('Summary of Failures'):
            break
        if re.match(r' *\d+/\d+ ', line):
            failing = bool(re.search(r' (FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS)\b', line))
            if progress or failing:
                say(re.sub(r'raytrain:\S+ / ', '', line).rstrip())
        elif failing or line.startswith('ERROR'):
            say(line.rstrip())
    for _ in lines:
        pass
