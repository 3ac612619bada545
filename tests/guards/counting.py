# SPDX-License-Identifier: Apache-2.0
"""tests/run counts what ran: single test cases, and as a failure a program that dies without a summary, and a build that
leaves an older program to be run. It fails where there is nothing to run, or less than there was, shows a failure when it is
known, and takes its compilers along when it is killed. It runs the few again that failed, but not what crashed, nor what a sanitizer found."""
import contextlib
import importlib
import io
import itertools
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import threading
import time
import types

import guard

SUMMARY = '[doctest] test cases:  {} | {} passed | {} failed | {} skipped\n[doctest] assertions: 9 | 9 passed | 0 failed |'
CASES = {
    'every test case is counted': ('OK', SUMMARY.format(5, 5, 0, 2), '5 passed, 0 failed, 2 skipped'),
    'failed test cases are counted': ('FAIL', SUMMARY.format(5, 3, 2, 0), '3 passed, 2 failed, 0 skipped'),
    'a crash before the summary is a failure': ('FAIL', 'TEST CASE: a\n', '0 passed, 1 failed, 0 skipped'),
    'a crash after the summary is a failure': ('FAIL', SUMMARY.format(5, 5, 0, 0), '5 passed, 1 failed, 0 skipped'),
    'a test that does not end is a failure': ('TIMEOUT', '', '0 passed, 1 failed, 0 skipped'),
    'a guard is one': ('OK', 'fine\n', '1 passed, 0 failed, 0 skipped'),
    'a guard that cannot look is skipped': ('SKIP', '', '0 passed, 0 failed, 1 skipped'),
    'a program that cannot start is a failure': ('ERROR', None, '0 passed, 1 failed, 0 skipped'),
}


# What meson prints, line by line, of which the runner passes on what is to be known at once.
MESSAGES = ['1/3 raytrain:unit / core OK 0.1s', '2/3 raytrain:unit / data FAIL 0.2s exit status 1', '>>> data', 'why', '',
            '3/3 raytrain:unit / exec OK 0.1s', 'Summary of Failures:', '2/3 raytrain:unit / data FAIL']
# Builds a program that waits for ever, in a process that is killed then.
BUILD = 'import building, pathlib, sys; building.build(pathlib.Path(sys.argv[1]))'
SECONDS = 10
RUNNER = 'tests/runner'


def floors(runner):
    """What is said, and how many failures, where each suite has run so many test cases."""
    def failed(cases, option='auto', installed=True, floors=None):
        tests = [types.SimpleNamespace(suites={suite}, cases=count) for suite, count in cases.items()]
        with contextlib.redirect_stdout(io.StringIO()):
            return runner.testing.below_floor(tests, lambda _: option, installed, floors).failed

    enough = dict(runner.testing.FLOORS)
    yield 'enough', failed(enough), 0
    yield 'one less', failed({**enough, 'mpi': enough['mpi'] - 1}), 1
    yield 'no LibTorch', failed({**enough, 'torch': 0}), 1
    yield 'no LibTorch, as configured', failed({**enough, 'torch': 0}, option='disabled'), 0
    yield 'no LibTorch, and a person who installs', failed({**enough, 'torch': 0}, installed=False), 0
    extended = dict(runner.testing.EXTENDED_FLOORS)
    yield 'enough extended tests', failed(extended, floors=extended), 0
    yield 'one extended test less', failed({**extended, 'torch': extended['torch'] - 1}, floors=extended), 1
    yield 'no test program', failed({}, option='disabled', installed=False), 1


def when_it_hangs(folder):
    """In place of a threading.Timer: what it calls is called when a command of the folder waits for ever."""
    class WhenItHangs(threading.Thread):
        def __init__(self, _, function):
            super().__init__(daemon=True)
            self.function = function

        def run(self):
            with open(folder / 'started', 'rb'):
                self.function()

        def cancel(self):
            pass

    return types.SimpleNamespace(Timer=WhenItHangs, Event=threading.Event, Thread=threading.Thread)


def where_time_ends(runner):
    """What is said, and what is counted and left out, where time ends."""
    def ran(cell, seconds):
        runner.counts.not_tested.clear()
        with contextlib.redirect_stdout(io.StringIO()):
            count = runner.schedule.run_cell('cell', cell, end_s=None if seconds is None else time.monotonic() + seconds)
        return count.passed, count.failed, [name for left in runner.counts.not_tested.values() for name in left]

    def in_folder(work, **files):
        """What is counted of work that fails once, and hangs then until its time is over."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for fifo in ('started', 'forever'):
                os.mkfifo(folder / fifo)
            for file, text in files.items():
                (folder / file.replace('_', '.')).write_text(text.replace('FOREVER', f'cat {folder}/forever >{folder}/started'))
            runner.processes.threading = when_it_hangs(folder)
            with runner.processes.counting() as total:
                total += runner.counts.Count(passed=2)
                total += work(folder)
            return total

    def test(folder):
        command = ['meson', 'test', '-C', folder / 'out', '--num-processes=1']
        runner.processes.run(['meson', 'setup', folder / 'out', folder])
        tests = [types.SimpleNamespace(name=name) for name in ('bad', 'endless')]
        return runner.testing.records_of(command, tests, folder / 'out', None, False)

    yield 'no limit', ran(lambda: runner.counts.Count(passed=1), None), (1, 0, [])
    yield 'enough time', ran(lambda: runner.counts.Count(passed=1), SECONDS), (1, 0, [])
    yield 'no time', ran(lambda: runner.counts.Count(passed=1), 0), (0, 0, ['cell'])
    build = 'rule fail\n  command = false\nrule make\n  command = FOREVER\nbuild bad: fail\nbuild good: make\n'
    yield ('a build whose time ends', ran(lambda: in_folder(
        lambda folder: runner.building.build(folder, ['-j1', 'bad', 'good']), build_ninja=build), 100 * SECONDS), (2, 1, ['cell']))
    # The second test begins with something else: meson overlooks one that it has started that very moment.
    project = ("project('a', meson_version: '>=1.0')\ntest('bad', find_program('false'), priority: 1)\n"
               "test('endless', find_program('sh'), args: ['-c', 'for i in 1 2 3 4 5; do python3 -c pass; done; FOREVER'])\n")
    yield 'tests whose time ends', ran(lambda: in_folder(test, meson_build=project), 100 * SECONDS), (2, 1, ['cell'])
    runner.processes.threading = threading
    cells = {name: () for name in 'abc'}
    for day, names in [(0, 'abc'), (1, 'bca'), (5, 'cab')]:
        yield f'day {day} begins with another cell', ''.join(runner.schedule.in_turn(cells, day)), names


def runs_again(runner):
    """What is said, and which tests are run once more, of those that have failed, by what they said and how they ended."""
    def again(*failed, result='FAIL'):
        return runner.meson_log.to_run_again([{'name': 'good', 'result': 'OK', 'returncode': 0}] + [
            {'name': str(number), 'result': result, 'stdout': said, 'returncode': status} for number, (said, status) in enumerate(failed)])

    yield 'one that failed', again(('too late', 1)), ['0']
    yield 'one that was killed since it took too long', again(('', -15), result='TIMEOUT'), ['0']
    yield 'many that failed', again(*[('too late', 1)] * (runner.meson_log.MOST_RUN_AGAIN + 1)), []
    yield 'one that crashed', again(('', -11)), []
    yield 'a shell whose child crashed', again(('', 134)), []
    yield 'a test case that crashed', again(('FATAL ERROR: test case CRASHED: SIGSEGV', 1)), []
    yield 'a race', again(('WARNING: ThreadSanitizer: data race', 1)), []
    yield 'undefined behaviour', again(('x.hpp:3:4: runtime error: signed integer overflow', 1)), []


def choices(runner, cases):
    """What is said, and what a pattern chooses, or what else is built for it, in a folder whose introspection is pretended; the
    files of its test cases lie in `cases`."""
    folder = pathlib.Path('/folder')
    sources = [{'sources': [], 'generated_sources': [f'{cases}/program-unity0.cpp']}]
    pathlib.Path(cases, 'program-unity0.cpp').write_text(f'#include<{cases}/shard_test.cpp>\n')
    pathlib.Path(cases, 'shard_test.cpp').write_text('#include "cases.hpp"\nTEST_CASE("a part "\n  "of a shard, \\"train\\"") {}\n')
    pathlib.Path(cases, 'cases.hpp').write_text('TEST_CASE_TEMPLATE_DEFINE("The same of each type", T, same) {}\n')
    targets = [{'id': 'program', 'filename': ['/folder/tests/program'], 'target_sources': sources}, {'id': 'library', 'filename': ['/folder/libraytrain.a']},
               {'id': 'other', 'filename': ['/folder/other/program']}]
    tests = [{'name': 'core', 'suite': ['raytrain:unit'], 'cmd': ['/folder/tests/program'], 'depends': ['program']},
             {'name': 'gpu kit', 'suite': ['raytrain:unit'], 'cmd': ['python3', '-B', 'kit.py']},
             {'name': 'consumer', 'suite': ['raytrain:consumer'], 'cmd': ['python3', 'consumer.py', '/folder'], 'depends': ['library']},
             {'name': 'supervised', 'suite': ['raytrain:mpi'], 'cmd': ['python3', 'ranks.py', 'tests/program'], 'depends': ['other', 'program']}]
    introspect, runner.testing.introspect = runner.testing.introspect, lambda _, what: {'tests': tests, 'targets': targets}[what]
    try:
        tests = {test.name: test for test in runner.testing.tests_of(folder)}
    finally:
        runner.testing.introspect = introspect

    def chosen(*patterns):
        return [([test.name for test in chosen], arguments) for chosen, arguments in runner.testing.chosen_by(patterns, list(tests.values()))]

    yield 'a pattern that names a test', chosen('cons'), [(['consumer'], [])]
    yield 'one that may name test cases', chosen('part of a shard, "tr'), [(['core'], ['--test-case=*part of a shard, "tr*'])]
    yield 'one that names a template of a header, with its type', chosen('Same*type<int>'), [(['core'], ['--test-case=*Same*type<int>*'])]
    yield 'one that no file has', chosen('of a shart'), [([], ['--test-case=*of a shart*'])]
    yield 'what a test says that it depends on', tests['consumer'].programs, [folder / 'libraytrain.a']
    yield 'what a test starts beside', tests['supervised'].programs, [folder / 'tests/program', folder / 'other/program']


# In place of meson: writes in its log that these tests have passed, and ends with this status.
MESON = """import pathlib, sys
status, log, names = sys.argv[1], pathlib.Path(sys.argv[2].partition('=')[2]), sys.argv[3:]
pathlib.Path('meson-logs', log.name + '.json').write_text(''.join('{"name": "%s", "result": "OK"}\\n' % name for name in names if name != 'lost'))
sys.exit(int(status))
"""


def where_meson_fails(runner):
    """What is said, and how many failures, where meson ends with a status, and has run these tests or lost one."""
    def failed(status, *names):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(folder):
            pathlib.Path('meson-logs').mkdir()
            tests = [types.SimpleNamespace(name=name) for name in names]
            records, failures = runner.testing.records_of([sys.executable, '-c', MESON, status], tests, pathlib.Path(folder), None, False)
        return len(records), failures.failed

    yield 'meson that ends well', failed(0, 'good', 'better'), (2, 0)
    yield 'meson that fails, where no test has', failed(2, 'good', 'better'), (2, 1)
    yield 'a test that meson has lost', failed(0, 'good', 'lost'), (1, 1)


def compiler_survives(folder_of_runner):
    """Whether what a build has started goes on after the process that builds was killed."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ('started', 'forever'):
            os.mkfifo(pathlib.Path(folder, name))
        pathlib.Path(folder, 'build.ninja').write_text('rule make\n  command = cat forever >started\nbuild program: make\n')
        process = subprocess.Popen([sys.executable, '-B', '-c', BUILD, folder], cwd=folder_of_runner, stdout=subprocess.DEVNULL)
        with open(pathlib.Path(folder, 'started'), 'rb') as started, open(pathlib.Path(folder, 'forever'), 'wb'):
            process.kill()
            process.wait()
            return not select.select([started], [], [], SECONDS)[0]


@contextlib.contextmanager
def imported(folder):
    """The runner's modules, by their names, of this folder; another folder has others of the same names."""
    names = [path.stem for path in folder.glob('*.py') if path.stem != '__main__']
    sys.path.insert(0, str(folder))
    try:
        yield types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)


def check(root):
    with imported(root / RUNNER) as runner:
        yield from findings(root / RUNNER, runner)


def findings(folder_of_runner, runner):
    for name, (result, said, expected) in CASES.items():
        counted = str(runner.meson_log.count_of({'result': result, 'stdout': said}))
        if counted != expected:
            yield f'{name}: counted {counted}'
    for name in ('raytrain:mpi+ranks / ranks two_hosts', 'raytrain / ranks two_hosts', 'ranks two_hosts'):
        if runner.meson_log.name_of({'name': name}) != 'ranks two_hosts':
            yield f"'{name}' is taken for another test"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runner.meson_log.show_failures(iter(MESSAGES), False)
    if said.getvalue().split('\n')[1:] != ['>>> data', 'why', '', '']:
        yield f'of a test that fails it says: {said.getvalue()}'
    with contextlib.redirect_stdout(io.StringIO()):
        if runner.testing.build_and_run(pathlib.Path('nowhere'), []).failed != 1:
            yield 'no test program is no failure'
    for name, counted, expected in floors(runner):
        if counted != expected:
            yield f'{name}: {counted} failures, not {expected}'
    for name, found, expected in runs_again(runner):
        if found != expected:
            yield f'{name}: runs {found} again, not {expected}'
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / 'library/include').mkdir(parents=True)
        command = ['python3', f'{folder}/library/include', 'tests/b', f'{folder}/c']
        test = runner.testing.Test({'name': 'a', 'suite': ['unit'], 'cmd': command}, folder, {}, {})
        if test.programs != [folder / 'tests/b', folder / 'c']:
            yield f'of a test that is told a folder it builds {test.programs}'
    with tempfile.TemporaryDirectory() as folder:
        chosen = list(choices(runner, folder))
    for name, found, expected in itertools.chain(chosen, where_meson_fails(runner), where_time_ends(runner)):
        if found != expected:
            yield f'{name}: {found} where {expected} was expected'
    if compiler_survives(folder_of_runner):
        yield 'what a killed build has started goes on'
    for command, expected in {'true': 0, 'false': 1}.items():
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            pathlib.Path(folder, 'build.ninja').write_text(f'rule make\n  command = {command}\nbuild program: make\n')
            counted = runner.building.build(pathlib.Path(folder)).failed
        if counted != expected:
            yield f'a build by `{command}`: counted {counted} failed'


GOOD = {f'{RUNNER}/{path.name}': path.read_text() for path in (guard.ROOT / RUNNER).glob('*.py')}


def planted(module, right, wrong):
    """The module with other words."""
    name = f'{RUNNER}/{module}.py'
    return {name: GOOD[name].replace(right, wrong)}


DEFECTS = {
    'a test case that is not found': planted('testing', "pattern.lower().partition('<')[0]", 'pattern'),
    'a crash that is overlooked': planted('meson_log', 'failed if ok or failed else 1', 'failed'),
    'a build whose failure is not counted': planted('building', 'count.failed = 1', 'count.failed = 0'),
    'a killed build that goes on': planted('processes', "['setpriv', '--pdeathsig', 'TERM']", '[]'),
    'a name that no test has': planted('meson_log', "record['name'].rpartition(' / ')[2]", "record['name']"),
    'a suite that gets lost': planted('testing', 'if cases >= floor:', 'if cases:'),
    'extended tests that get lost': planted('testing', '(floors or FLOORS)', 'FLOORS'),
    'no test program': planted('testing', 'if not tests:', 'if False:'),
    'no test program, of which nothing is counted': planted('testing', 'return Count(failed=1)', 'return Count()'),
    'a failure that is shown late': planted('meson_log', 'elif failing or', 'elif'),
    'a race that is tried until it does not show': planted('meson_log', "r'Sanitizer|", "r'"),
    'a crash that is tried until it does not come': planted('meson_log', "0 <= record.get('returncode', 0) < 128", 'True'),
    'a failure before the time is over that is lost': planted('processes', 'up.count += count\n', 'pass\n'),
    'a test that is ended and counts as failed': planted('testing', "!= 'INTERRUPT'", "!= ''"),
    'a cell that is ended, of which nothing is said': planted('schedule', "left_out(name, 'its time", "str('its time"),
    'a folder that is taken for a program': planted('testing', ' and not word.is_dir()', ''),
    'a library that a test needs and nobody builds': planted('testing', "entry.get('depends', ())", '()'),
    'meson that fails unseen': planted('testing', 'process.returncode != 0 and', 'False and'),
    'tests that meson loses': planted('testing', 'for name in lost:', 'for name in ():'),
    'test cases that are not counted': planted('meson_log', 'Count(passed, failed', 'Count(1, failed'),
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
