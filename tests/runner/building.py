# SPDX-License-Identifier: Apache-2.0
"""Configures build folders, builds in them, and brings what they need."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from counts import left_out, say
from processes import TimeUp, counting, run, started

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / 'build'
# The suites whose tests start programs of packages that building does without, by the name that ./setup knows them by.
SUITES_WITH_PACKAGES = ['guard', 'mpi', 'python', 'slurm']


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


def fetched(folder, what, command):
    """Whether the command brought it into the folder; says so where it did not."""
    folder.mkdir(parents=True, exist_ok=True)
    with removed_where_time_ends(folder):
        status, said = run(command, cwd=folder)
    if status != 0:
        say(f'{what} cannot be fetched:\n{said}')
        left_out(what, 'cannot be fetched')
    return status == 0


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
