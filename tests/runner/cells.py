# SPDX-License-Identifier: Apache-2.0
"""What --all, --long and --coverage add to the tests: each function is a cell. Those that fetch libraries are in other_libraries.py."""
import os
import re
import sys

from building import BUILD, ROOT, build, configure, install_for, option_of
from counts import Count, left_out, passed_if, say
from processes import TimeUp, counting, run, side_by_side, started
from testing import EXTENDED_FLOORS, below_floor, build_and_run, tests_of

# Of chaos, in each launch. Those of --all make it five in all with the few seconds of tests/run itself.
CHAOS_MINUTES = 1.6
LONG_CHAOS_MINUTES = 5


def extended_tests():
    """The tests of the suite extended, which CONTRIBUTING.md describes."""
    tests = tests_of(BUILD, ['extended'])
    install_for(tests)
    with counting() as total:
        total += build_and_run(BUILD, tests, show=True)
        if not total.failed:
            total += below_floor(tests, lambda name: option_of(BUILD, name), os.environ.get('RAYTRAIN_SETUP') != 'no', EXTENDED_FLOORS)
    return total


def slow_tests():
    """The tests of the suite slow: each header alone, all headers in one program, users' programs of headers alone and with raytrain as
    a subproject, what must not compile with LibTorch, and the conformance of collectives on a pretended GPU."""
    with counting() as total:
        total += build(BUILD)  # users' programs are linked with what has been installed
        total += build_and_run(BUILD, tests_of(BUILD, ['slow']), slower=3)
    return total


def address_sanitizer():
    folder = sanitized('asan', 'address,undefined', '-Dcpp_args=-g1 -fno-sanitize-recover=all')
    tests = [test for test in tests_of(folder) if test.suites & {'unit', 'xgboost', 'lightgbm'} or test.suites - {'extended'} == {'processes'} or
             test.name == 'example linear_regression']
    # The sanitizer takes an exception for a damaged one where it gets no descriptor to look at it.
    tests = [test for test in tests if test.name != 'processes few_open_files']
    return build_and_run(folder, tests, slower=5)


def thread_sanitizer():
    # g++ warns that the sanitizer does not see fences; those that Asio uses guard none of our data.
    folder = sanitized('tsan', 'thread', '-Dcpp_args=-g1 -Wno-tsan', '-Dtorch=disabled')
    # A process that ends beside a thread that does not return is what some tests are of.
    return build_and_run(folder, tests_of(folder, ['unit']), slower=10,
                         environment={'TSAN_OPTIONS': 'halt_on_error=1 second_deadlock_stack=1 report_thread_leaks=0'})


def sanitized(name, sanitizers, *options):
    # Line numbers are all that a report needs, and sanitizers make g++ warn of what is not so.
    return configure(name, f'-Db_sanitize={sanitizers}', '-Db_lundef=false', '-Db_ndebug=false', '-Doptimization=1',
                     '-Dwerror=false', '-Dbenchmarks=disabled', '-Dmpi=disabled', *options)


def clang_alone():
    """Another compiler, and none of the optional dependencies."""
    folder = configure('clang', '-Dauto_features=disabled', '-Dtests=enabled', '-Doptimization=0',
                       environment={'CXX': 'clang++-16'})
    return build_and_run(folder, tests_of(folder, ['unit', 'compile', 'casing']), slower=3)


def benchmarks():
    with counting() as total:
        for benchmark in sorted((ROOT / 'benchmarks').glob('*/benchmark.py')):
            status, said = run([ROOT / 'benchmarks' / 'run', '--check', benchmark.parent.name])
            if status != 0:
                say(said)
            skipped = re.search(r'^skipped: (.+)$', said, re.MULTILINE)
            if skipped:
                left_out(f'benchmark {benchmark.parent.name}', skipped[1])
            total += Count(skipped=1) if skipped and status == 0 else passed_if(status == 0)
    return total


def fuzzing(seconds):
    status, said = run([ROOT / 'tests' / 'fuzz' / 'run', BUILD / 'fuzz', seconds])
    if status != 0:
        say(said)
    skipped = re.findall(r'^skipped: (\S+), for want of (.+)$', said, re.MULTILINE)
    for target, reason in skipped:
        left_out(f'fuzzing {target}', reason)
    total = Count(skipped=len(skipped))
    total += passed_if(status == 0)
    return total


def soak():
    """Collectives for three minutes, by random."""
    with counting() as total:
        total += build(BUILD, ['tests/soak'])
        status, said = run([BUILD / 'tests' / 'soak'])
        say(said)
        total += passed_if(status == 0)
    return total


def killed_trainings():
    """LibTorch trainings that are killed at 40 random moments each: the suite "torch" has six, and --long 200."""
    with counting() as total:
        total += build(BUILD, ['tests/killed_training_program'])
        for network in 'mlp', 'conv', 'language':
            status, said = run([sys.executable, '-B', ROOT / 'tests' / 'backend' / 'killed_training.py',
                                BUILD / 'tests' / 'killed_training_program', network, '40'])
            say(said)
            total += passed_if(status == 0)
    return total


def failing_power():
    """Checkpoints at 10,000 random moments at which the power fails."""
    with counting() as total:
        total += build(BUILD, ['tests/test_checkpoint'])
        status, said = run([BUILD / 'tests' / 'test_checkpoint', '--test-case=power that fails at any moment of any history*'],
                           env={**os.environ, 'RAYTRAIN_TEST_KILL_POINTS': '10000'})
        say(said)
        total += passed_if(status == 0 and ' 1 passed' in said)
    return total


def chaos(minutes):
    """Trainings whose workers fail by random, for so long in each launch, all launches beside each other; each one that differs from
    an undisturbed training is a failure, and says which seed repeats it."""
    variables = [line.split('=') for line in (ROOT / 'mpirun.env').read_text().splitlines() if not line.startswith('#')]
    launches = ['threads', 'processes', 'mpirun'] if tests_of(BUILD, ['mpi']) else ['threads', 'processes']
    if 'mpirun' not in launches:
        left_out('chaos on mpirun', 'there was no MPI when build/ was configured')

    def fail_by_random(launch):
        command = [sys.executable, '-B', ROOT / 'tests' / 'launch' / 'chaos.py', BUILD / 'tests' / 'chaos_program', launch]
        return run([*command, '--seconds', 60 * minutes, '--endless'], env={**os.environ, **dict(variables)})

    with counting() as total:
        total += build(BUILD, ['tests/chaos_program'])
        time_up = None
        for result in side_by_side(fail_by_random, launches):
            if isinstance(result, TimeUp):
                time_up = result
                continue
            status, said = result
            say(said)
            total += passed_if(status == 0)
        if time_up:
            raise time_up
    return total


def coverage():
    # What runs in one process. Without any optimization, ranks that wait for each other take minutes; g++ then warns of
    # what is not so.
    folder = configure('coverage', '-Db_coverage=true', '-Doptimization=1', '-Dwerror=false', '-Dbenchmarks=disabled',
                       '-Dmpi=disabled')
    total = build_and_run(folder, tests_of(folder, ['unit', 'torch', 'xgboost', 'lightgbm', 'example']), slower=15)
    status, said = run(['gcovr', '--root', ROOT, '--object-directory', folder, '--filter', f'{ROOT}/include/', '-j', '2',
                        '--exclude-throw-branches', '--print-summary', '--sort-percentage', folder])
    say(said)
    total += passed_if(status == 0)
    return total


def fresh_machine(suite):
    """README's two commands on a bare Debian."""
    with started([ROOT / 'tests' / 'fresh_machine', suite], stdout=None) as done:
        pass
    if done.returncode == 77:
        left_out(f'a fresh machine with {suite}', 'needs root')
        return Count(skipped=1)
    return passed_if(done.returncode == 0)
