# SPDX-License-Identifier: Apache-2.0
"""tests/run counts what ran: single test cases, and as a failure a program that dies without a summary, and a build that
leaves an older program to be run."""
import contextlib
import io
import pathlib
import sys
import tempfile
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


def check(root):
    path = root / 'tests/runner.py'
    runner = types.ModuleType('runner')
    runner.__file__ = str(path)
    exec(compile(path.read_text(), str(path), 'exec'), runner.__dict__)  # pylint: disable=exec-used
    for name, (result, said, expected) in CASES.items():
        counted = str(runner.count_of({'result': result, 'stdout': said}))
        if counted != expected:
            yield f'{name}: counted {counted}'
    for command, expected in {'true': 0, 'false': 1}.items():
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            pathlib.Path(folder, 'build.ninja').write_text(f'rule make\n  command = {command}\nbuild program: make\n')
            counted = runner.build(pathlib.Path(folder)).failed
        if counted != expected:
            yield f'a build by `{command}`: counted {counted} failed'


RUNNER = (guard.ROOT / 'tests/runner.py').read_text()
GOOD = {'tests/runner.py': RUNNER}
DEFECTS = {
    'a crash that is overlooked': {'tests/runner.py': RUNNER.replace('failed if ok or failed else 1', 'failed')},
    'a build whose failure is not counted': {'tests/runner.py': RUNNER.replace('return Count(failed=1)', 'return Count()')},
    'test cases that are not counted': {'tests/runner.py': RUNNER.replace('Count(passed, failed', 'Count(1, failed')},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
