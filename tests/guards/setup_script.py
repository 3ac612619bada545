# SPDX-License-Identifier: Apache-2.0
"""The set-up script against a pretended Debian: what it would install, when it asks, and when it keeps still."""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import guard

# Programs that stand in for the real ones; each writes down how it was called.
FAKES = {
    'dpkg-query': r'''for p in "$@"; do case " $INSTALLED " in *" $p "*) echo "ii  $p 1.0";; esac; done; true''',
    'apt-get': r'''echo "apt-get $*" >>"$CALLS"; [ ! -e /proc/$$/fd/9 ] || echo "the lock of build/" >>"$CALLS"
[ "$1" != update ] || [ -z "$LOCKED" ] || [ -e "$CALLS.locked" ] || { touch "$CALLS.locked"; echo "E: Could not get lock lists/lock."; exit 100; }
[ -z "$APT_FAILS" ] || { [ "$1" != install ] || [ -e "$CALLS.updated" ] || exit 100; }
[ "$1" != update ] || touch "$CALLS.updated"''',
    'python3': r'''echo "python3 $*" >>"$CALLS"; [ -z "$NO_PIP" ] || exit 1; [ "$3" = install ] || exit 0
while [ "$1" != --target ]; do shift; done; mkdir -p "$2/lightgbm/lib"; echo >"$2/lightgbm/lib/lib_lightgbm.so"; [ -z "$PIP_FAILS" ]''',
    'ninja': 'case " $* " in *" -n "*) echo more;; *) kill -INT "$PPID"; exit 2;; esac',
    'setpriv': 'shift 2; exec "$@"',
    'flock': 'echo flock >>"$CALLS"',
    'sleep': 'true',
    'id': 'echo "${FAKE_UID:-0}"',
    'sudo': '[ -n "$SUDO_WORKS" ] || exit 1; [ "$1" != -n ] || shift; echo "sudo" >>"$CALLS"; exec "$@"',
}
TOOLS = ['bash', 'cat', 'cut', 'dirname', 'env', 'grep', 'head', 'mkdir', 'mktemp', 'mv', 'readlink', 'rm', 'sed', 'tail', 'touch', 'tr', 'true']
EVERYTHING = ('g++ meson ninja-build pkg-config python3 ccache libasio-dev libcereal-dev libfmt-dev libxxhash-dev zlib1g-dev libzstd-dev '
              'libtorch-dev libcli11-dev dataset-fashion-mnist libxgboost-dev libcpp-httplib-dev curl doctest-dev libstb-dev libopenmpi-dev openmpi-bin cmake python3-pip git '
              'iproute2 python3-xgboost python3-torch libopenblas0-openmp slurmctld slurmd slurm-client munge')
INSTALL = 'apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=[0-9]+'
SLURM = EVERYTHING.split()[-4:]


CELLS = 'clang-16 clang-tidy-16 libclang-rt-16-dev gcovr libgloo-dev'
SCRIPTS = ['setup', 'tests/run']


class Debian:
    """A folder of programs that is the whole PATH of the script."""

    def __init__(self, folder, setup, lacks=()):
        self.folder, self.setup = pathlib.Path(folder), setup
        self.calls = self.folder / 'calls'
        for name, body in FAKES.items():
            if name not in lacks:
                guard.plant(self.folder, {f'bin/{name}': f'#!/bin/bash\n{body}\n'})
        for name in TOOLS:
            (self.folder / 'bin' / name).symlink_to(subprocess.check_output(['which', name], text=True).strip())

    def run(self, kind, installed, **environment):
        return self.call(['bash', str(self.setup), kind], installed, **environment)

    def fetch_lightgbm(self, **environment):
        """In a folder of its own; its exit status, what it said and called, and whether LightGBM is there then."""
        clone = self.folder / 'clone'
        guard.plant(clone, {'setup': self.setup.read_text(), 'build/lock': ''})
        status, said, calls, _ = self.call(['bash', '-c', '. "$1"; fetch_lightgbm', '-', str(clone / 'setup')], '', **environment)
        return status, said, calls, (clone / 'build/lightgbm/lightgbm/lib/lib_lightgbm.so').exists()

    def in_clone(self, command, installed, **environment):
        """The same of a command in a folder that has the scripts."""
        clone = self.folder / 'scripts'
        guard.plant(clone, {name: (self.setup.parent / name).read_text() for name in SCRIPTS})
        return self.call(['bash', '-c', f'cd "$1"; {command}', '-', str(clone)], installed, **environment)

    def call(self, command, installed, **environment):
        self.calls.write_text('')
        for file in self.folder.glob('calls.*'):
            file.unlink()
        start = time.monotonic()
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, check=False, cwd='/',
                              env={'PATH': str(self.folder / 'bin'), 'CALLS': str(self.calls), 'INSTALLED': installed,
                                   'APT_FAILS': '', 'LOCKED': '', 'NO_PIP': '', 'PIP_FAILS': '', 'SUDO_WORKS': '', 'TMPDIR': str(self.folder), **environment})
        return done.returncode, done.stdout, self.calls.read_text(), time.monotonic() - start


def without(*names):
    return ' '.join(name for name in EVERYTHING.split() if name not in names)


def check(root):
    with tempfile.TemporaryDirectory(suffix=' with a space') as folder:
        debian = Debian(pathlib.Path(folder) / 'whole', root / 'setup')
        status, said, calls, seconds = debian.run('tests', EVERYTHING)
        if status != 0 or calls:
            yield f'with nothing missing: exit status {status}, called: {calls}{said}'
        if seconds > 1:
            yield f'with nothing missing: took {seconds:.1f} s'

        status, said, calls, _ = debian.run('tests', without('libfmt-dev', 'doctest-dev'))
        if status != 0 or not re.search(rf'^{INSTALL} libfmt-dev doctest-dev$', calls, re.M):
            yield f'with two packages missing: exit status {status}, called: {calls}{said}'
        if 'libfmt-dev' not in said:
            yield f'with two packages missing: does not say which: {said}'

        status, said, calls, _ = debian.run('examples', without('libcpp-httplib-dev', 'curl', 'doctest-dev', 'libstb-dev', 'libopenmpi-dev', 'openmpi-bin', 'cmake', 'git', *SLURM))
        if status != 0 or calls:
            yield f'examples want what only tests need: {calls}{said}'
        status, said, calls, _ = debian.run('mpi_examples', without('libopenmpi-dev', 'openmpi-bin', 'doctest-dev', 'libstb-dev', *SLURM))
        if status != 0 or not re.search(rf'^{INSTALL} libopenmpi-dev openmpi-bin$', calls, re.M):
            yield f'examples that use MPI, without it: exit status {status}, called: {calls}{said}'

        status, said, calls, _ = debian.run('serving_examples', without('libcpp-httplib-dev', 'curl', 'libopenmpi-dev', 'doctest-dev', *SLURM))
        if status != 0 or not re.search(rf'^{INSTALL} libcpp-httplib-dev curl$', calls, re.M):
            yield f'an example that serves, without its library: exit status {status}, called: {calls}{said}'

        for kind in ('tests', 'ci'):
            status, said, calls, _ = debian.run(kind, without(*SLURM))
            if not re.search(rf'^{INSTALL} .*{" ".join(SLURM)}', calls, re.M):
                yield f'{kind} without Slurm: exit status {status}, called: {calls}{said}'

        # What the tests of other suites start is not installed for test programs, and for a suite its own is.
        status, said, calls, _ = debian.run('test_programs', without('git', 'iproute2', 'python3-xgboost', 'python3-torch', *SLURM))
        if status != 0 or calls:
            yield f'test programs want what only other tests need: {calls}{said}'
        status, said, calls, _ = debian.call(['bash', str(root / 'setup'), 'guard', 'mpi'], without('iproute2', 'python3-xgboost', 'python3-torch', *SLURM))
        if status != 0 or not re.search(rf'^{INSTALL} iproute2$', calls, re.M):
            yield f'guards and MPI without network tools: exit status {status}, called: {calls}{said}'

        status, said, calls, _ = debian.run('tests', without('libopenblas0-openmp'))
        if 'libopenblas0-openmp' not in calls:
            yield f'with no OpenBLAS: called: {calls}'
        for flavour in ('libopenblas0-pthread', 'libopenblas0-serial'):
            status, said, calls, _ = debian.run('tests', f'{without("libopenblas0-openmp")} {flavour}')
            if calls:
                yield f'with {flavour}: adds a second flavour: {calls}'

        status, said, calls, _ = debian.run('tests', without('libfmt-dev'), FAKE_UID='1000')
        if status != 1 or 'apt-get install --no-install-recommends libfmt-dev\n' not in said or 'apt-get' in calls:
            yield f'without root and with a sudo that refuses: exit status {status}, called: {calls}{said}'
        status, said, calls, _ = debian.run('tests', without('libfmt-dev'), FAKE_UID='1000', SUDO_WORKS='yes')
        if status != 0 or 'sudo\napt-get install' not in calls:
            yield f'without root, with sudo: exit status {status}, called: {calls}{said}'
        status, said, calls, _ = debian.run('tests', without('libfmt-dev'), APT_FAILS='yes')
        if status != 0 or not re.search(r'install .*\napt-get update\napt-get install', calls):
            yield f'with old lists: exit status {status}, called: {calls}{said}'

        status, said, calls, _ = debian.run('tests', without('libfmt-dev'), APT_FAILS='yes', LOCKED='yes')
        if status != 0 or not re.search(r'install .*\napt-get update\napt-get update\napt-get install', calls):
            yield f'with lists that another one fetches just now: exit status {status}, called: {calls}{said}'

        # Two scripts that are started together install one after the other. A daemon that a package starts would keep the lock.
        _, said, calls, _ = debian.in_clone('. ./setup; prepare tests', without('libfmt-dev'))
        if not re.match(rf'flock\n{INSTALL} libfmt-dev\n', calls) or 'the lock of build/' in calls:
            yield f'what comes before a build: called: {calls}{said}'

        # What runs beside the plain tests brings what it needs.
        for option, wanted in {'': '', '--coverage': 'gcovr', '--long': CELLS, '--cell fuzzing': CELLS, '--cell=fuzzing': CELLS, '--all': CELLS}.items():
            _, said, calls, _ = debian.in_clone(f'./tests/run {option}', EVERYTHING)
            installs = re.findall(rf'^{INSTALL} (.*)$', calls, re.M)
            if installs != [wanted][:bool(wanted)]:
                yield f'tests/run {option}: installs {installs}, not {wanted}: {said}'

        for why, said_then in ({'NO_PIP': 'yes'}, 'no pip'), ({'PIP_FAILS': 'yes'}, 'Fetching LightGBM failed'):
            status, said, calls, there = debian.fetch_lightgbm(**why)
            if status != 1 or there or said_then not in said or 'left out' not in said:
                yield f'LightGBM with {why}: exit status {status}, there: {there}: {said}'
        status, said, calls, there = debian.fetch_lightgbm(RAYTRAIN_SETUP='no')
        if status != 0 or calls or there:
            yield f'LightGBM with a set-up that leaves packages alone: exit status {status}, called: {calls}{said}'
        status, said, calls, there = debian.fetch_lightgbm()
        if status != 0 or not there or '--no-deps' not in calls:
            yield f'LightGBM: exit status {status}, there: {there}, called: {calls}{said}'
        status, said, calls, there = debian.fetch_lightgbm(PIP_FAILS='yes')
        if status != 0 or calls or not there:
            yield f'LightGBM that is there already: exit status {status}, called: {calls}{said}'

        status, said, *_ = debian.in_clone('mkdir -p build; . ./setup; build_targets Building all; echo went on', EVERYTHING)
        if status != 130 or 'went on' in said:
            yield f'Ctrl-C while it builds: exit status {status}: {said}'

        poor = Debian(pathlib.Path(folder) / 'without sudo', root / 'setup', lacks=['sudo'])
        status, said, calls, _ = poor.run('tests', without('libfmt-dev'), FAKE_UID='1000')
        if status != 1 or 'apt-get install --no-install-recommends libfmt-dev\n' not in said or calls:
            yield f'without root and sudo: exit status {status}, called: {calls}{said}'
        other = Debian(pathlib.Path(folder) / 'no Debian', root / 'setup', lacks=['dpkg-query', 'apt-get'])
        status, said, calls, _ = other.run('tests', '')
        if status != 1 or 'libfmt-dev' not in said:
            yield f'on another system: exit status {status}: {said}'


GOOD = {name: (guard.ROOT / name).read_text() for name in SCRIPTS}
SCRIPT, RUN = GOOD.values()
DEFECTS = {
    'a set-up with recommended packages': {'setup': SCRIPT.replace(' --no-install-recommends', '')},
    'a set-up that always fetches lists': {'setup': SCRIPT.replace('  mapfile -t missing', '  apt-get update\n  mapfile -t missing')},
    'a set-up with a fixed flavour': {'setup': SCRIPT.replace('*" libopenblas0-"*', '*" libopenblas0-openmp "*')},
    'an example that serves without its library': {'setup': SCRIPT.replace('libxgboost-dev libcpp-httplib-dev curl=curl ;;', 'libxgboost-dev curl=curl ;;')},
    'a set-up of daemons for those who look at examples': {
        'setup': SCRIPT.replace('dataset-fashion-mnist libxgboost-dev ;;', 'dataset-fashion-mnist libxgboost-dev slurmd munge ;;')},
    'a set-up that keeps half of LightGBM': {'setup': SCRIPT.replace('--target "$folder.new"', '--target "$folder"')},
    'a set-up that does not wait for lists': {'setup': SCRIPT.replace('"Could not get lock"', '"no such error"')},
    'a set-up whose lock is kept by daemons': {'setup': SCRIPT.replace(' 9>&-', '')},
    'a set-up that locks too late': {'setup': SCRIPT.replace('  exec 9>"$root/build/lock"', '  install_missing tests\n  exec 9>"$root/build/lock"')},
    'tests of coverage without its tool': {'tests/run': RUN.replace('--coverage)', '--no)')},
    'plain tests that install all': {'tests/run': RUN.replace('kind=test_programs', 'kind=ci')},
    'a set-up that goes on behind Ctrl-C': {'setup': SCRIPT.replace('"Interrupted."; exit 130', '"Interrupted."')},
    'a set-up that needs root': {'setup': SCRIPT.replace('"$(id -u)" -ne 0', '"$(id -u)" -lt 0')},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
