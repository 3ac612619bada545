# SPDX-License-Identifier: Apache-2.0
"""Chooses tests, builds and runs them, and counts their test cases."""
import os
import pathlib
import re
import shlex
import sys

from building import BUILD, ROOT, build, introspect, jobs
from counts import Count, left_out, passed_at_second_try, say
from meson_log import count_of, name_of, reasons_of, records_in, show_failures, to_run_again, what_it_said
from processes import TimeUp, counting, started

SHOWN_LINES = 100  # by meson, of a test that fails
# A floor under the test cases of a suite: somewhat less than there are, so that a suite that is lost by mistake is a failure.
FLOORS = {'unit': 1000, 'torch': 150, 'xgboost': 40, 'mpi': 180}
EXTENDED_FLOORS = {'unit': 30, 'torch': 300, 'xgboost': 50, 'mpi': 150}  # of those that are of the suite `extended`, too


class Test:
    """A test that meson knows: what must be built for it, the files of its test cases, and how many of them have run.
    `files` has those of each of meson's targets, `sources` what a program is compiled from."""

    def __init__(self, entry, folder, files, sources):
        self.name, self.cases = entry['name'], 0
        self.suites = {suite.partition(':')[2] for suite in entry['suite']}
        # What another program is to start is named as it is seen from the folder, which holds folders of fetched libraries, too.
        words = [folder / word for word in entry['cmd'] if word.startswith((f'{folder}/', 'tests/', 'examples/'))]
        words = [word for word in words if word.suffix == '' and not word.is_dir()]
        self.programs = [*dict.fromkeys([*words, *(file for target in entry.get('depends', ()) for file in files[target])])]
        self.sources = sources.get(pathlib.Path(entry['cmd'][0]), [])  # only what is compiled from some takes doctest's filter

    def may_have(self, pattern):
        """Whether its files hold what a name that matches the pattern holds; doctest writes the type behind a template's."""
        text = re.sub(r'"\s+"', '', ''.join(text_of(self.sources))).replace('\\"', '"').lower()
        return all(part in text for part in re.split('[*?]', pattern.lower().partition('<')[0]))


def text_of(files):
    """What is in the files and in those headers that may have test cases, once each."""
    seen, left = set(), list(files)
    while left:
        file = left.pop()
        if file not in seen and file.is_file():
            seen.add(file)
            text = file.read_text()
            yield text
            left += [file.parent / name for name in re.findall(r'^#include "(.*)"', text, re.MULTILINE)]
            left += [ROOT / 'include' / name for name in re.findall('^#include <(raytrain/testing/.*)>', text, re.MULTILINE)]


def tests_of(folder, suites=()):
    """The tests of a configured folder that belong to one of the suites; without suites all."""
    targets = introspect(folder, 'targets')
    files = {target['id']: [pathlib.Path(file) for file in target['filename']] for target in targets}
    sources = {file: sources_of(target) for target in targets for file in files[target['id']]}
    tests = [Test(entry, folder, files, sources) for entry in introspect(folder, 'tests')]
    return [test for test in tests if not suites or test.suites & set(suites)]


def sources_of(target):
    """What a target is compiled from, also where meson has written one file that includes the others."""
    given = [part for part in target.get('target_sources', ()) if 'sources' in part]
    together = [pathlib.Path(file) for part in given for file in part['generated_sources'] if '-unity' in file]
    included = [name for file in together for name in re.findall('#include ?[<"](.*)[>"]', file.read_text())]
    return [pathlib.Path(file) for file in [*(file for part in given for file in part['sources']), *included]]


def chosen_by(patterns, tests):
    """What to run, one after the other: the tests that the patterns name; when there is none, for each pattern the programs of test
    cases that may have one of that name, and the filter for them."""
    if not patterns:
        return [(tests, [])]
    named = [test for test in tests if any(pattern in test.name for pattern in patterns)]
    if not named:
        programs = [test for test in tests if test.suites & {'unit', 'torch', 'xgboost', 'lightgbm'} and not test.suites & {'mpi', 'processes', 'python'}]
        return [([test for test in programs if test.may_have(pattern)], [f'--test-case=*{pattern}*']) for pattern in patterns]
    for pattern in patterns:
        if not any(pattern in test.name for test in tests):
            sys.exit(f"tests/run: no test is called '{pattern}'")
    return [(named, [])]


def build_and_run(folder, tests, arguments=(), slower=1, environment=None, show=False):
    """Builds the tests, runs them, and shows at once what fails."""
    if not tests:
        say('=== There are no test programs. What configuring said of them is in ' + str(folder / 'meson-logs/meson-log.txt'))
        return Count(failed=1)
    targets = sorted({str(program.relative_to(folder)) for test in tests for program in test.programs})
    command = ['meson', 'test', '-C', str(folder), '--no-rebuild', f'--timeout-multiplier={slower}', '--print-errorlogs']
    if arguments:
        command += ['--test-args', shlex.join(arguments)]
    environment = {**os.environ, 'PYTHONUNBUFFERED': '1', **(environment or {})}
    with counting() as total:
        total += build(folder, targets) if targets else Count()
        ready = [test for test in tests if all(program.exists() for program in test.programs)]
        for test in tests:
            if test not in ready:
                say(f'=== {test.name}: was not built')
                total.failed += 1
        if not ready:
            return total
        records, failures = records_of([*command, *jobs('--num-processes')], ready, folder, environment, show)
        total += failures
        try:
            for name in to_run_again(records):
                failed = [test for test in ready if test.name == name]
                again, failures = records_of([*command, '--num-processes=1'], failed, folder, environment, show)
                if again and not failures.failed and again[0]['result'] == 'OK' and not count_of(again[0]).failed:
                    passed_at_second_try.append(name if folder == BUILD else f'{name} ({folder.relative_to(BUILD)})')
                    records = [again[0] if name_of(record) == name else record for record in records]
        except TimeUp as up:  # a second run that was ended counts for nothing
            up.count = Count()
            for record in records:
                up.count += count_of(record)
            raise
        for record in records:
            count = count_of(record)
            if arguments:
                count.skipped = 0  # those that the filter leaves out
            total += count
            name = name_of(record)
            for test in (test for test in tests if test.name == name):
                test.cases = count.passed + count.failed + count.skipped
            for reason in reasons_of(record):
                left_out(name, reason)
    return total


def records_of(command, tests, folder, environment, show):
    """What meson's log tells of each test once they have run, and what meson itself has failed in; what fails is shown when it does."""
    log_name = f'testlog-{os.getpid()}'  # a log of its own: a test may run ./tests/run
    logs = folder / 'meson-logs'
    try:
        with started([*command, f'--logbase={log_name}', *(test.name for test in tests)], env=environment) as process:
            show_failures(process.stdout, show)
    except TimeUp as up:
        for record in records_in(logs, log_name):
            if record['result'] != 'INTERRUPT':
                up.count += count_of(record)
        raise
    records = records_in(logs, log_name)
    for record in records:
        said = what_it_said(record)
        if count_of(record).failed and said.count('\n') >= SHOWN_LINES - 1:
            say(f"\n=== All that {name_of(record)} said: {record['result']}\n{said}")
    failures = Count()
    if process.returncode != 0 and not any(count_of(record).failed for record in records):
        say(f'=== meson test has ended with status {process.returncode}, and no test has failed')
        failures.failed += 1
    lost = {test.name for test in tests} - {name_of(record) for record in records}
    for name in lost:
        say(f'=== {name}: meson test has not run it')
        failures.failed += 1
    return records, failures


def below_floor(tests, option, installed=True, floors=None):
    """One failure for each suite that has run less than it has, and a line for those that a person has left out."""
    total = Count()
    for suite, floor in (floors or FLOORS).items():
        cases = sum(test.cases for test in tests if suite in test.suites)
        if cases >= floor:
            continue
        if cases == 0 and suite != 'unit' and (not installed or option(suite) == 'disabled'):
            left_out(f'the suite {suite}', 'not there when build/ was configured')
            continue
        say(f'=== The suite {suite} has run {cases} test cases, and has {floor} at least. What configuring said is in {BUILD}/setup.log')
        total.failed += 1
    return total
