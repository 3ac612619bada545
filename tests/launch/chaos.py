# SPDX-License-Identifier: Apache-2.0
"""Trainings whose workers fail by random, each compared with an undisturbed one, bit for bit:

  chaos.py PROGRAM threads|processes|mpirun [--runs N | --seconds S] [--endless]

RAYTRAIN_TEST_SEED repeats the first of them. After each one nothing may be left of it: no process, open file, memory of
processes, or file of its own; what mpirun leaves of Open MPI's is counted. In one of four runs the program itself is killed, and started again.
"""
import argparse
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Longer than any run takes: five attempts, each with a worker that is found by its silence and does not return.
LIMIT = 60
SURVIVED_BY_ALL = ['exception', 'bad_alloc', 'mismatched_collective', 'slow', 'very_slow', 'nan_loss']
LOSE_A_PROCESS = ['kill', 'segmentation_fault', 'abort', 'stop', 'exit', 'preempt']
SHARED_MEMORY = pathlib.Path('/dev/shm')
MARK = 'RAYTRAIN_CHAOS'
ISOLATED = 'RAYTRAIN_CHAOS_ISOLATED'
# mpirun removes what its ranks share by Open MPI, but for now and then a segment of a rank that was killed when others were.
OF_MPI = ('vader_segment.', 'sm_segment.')


def see_no_other_memory():
    """Enters a namespace in which /dev/shm holds nothing of others, where that is allowed."""
    if os.environ.get(ISOLATED):
        return os.environ[ISOLATED] == 'yes'
    become_root = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    inside = ['unshare', *become_root, '--mount', 'sh', '-c', f'mount -t tmpfs none {SHARED_MEMORY} && exec "$@"', 'sh']
    allowed = shutil.which('unshare') and subprocess.run([*inside, 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0
    if allowed:
        os.execvpe(inside[0], [*inside, sys.executable, '-B', *sys.argv], {**os.environ, ISOLATED: 'yes'})
    print(f'{SHARED_MEMORY} is not looked at: no right to mount another one')
    return False


def processes_with(mark):
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if f'{MARK}={mark}'.encode() in (path / 'environ').read_bytes().split(b'\0'):
                found.append(f'{path.name} ({(path / "cmdline").read_bytes().replace(bytes(1), b" ").decode()})')
        except OSError:
            pass
    return found


class Run:
    """One run of the program, in folders of its own."""

    def __init__(self, options, launch, seed, faults):
        self.problems, self.kills, self.left_by_mpi = [], 0, 0
        folder = pathlib.Path(tempfile.mkdtemp(prefix='raytrain-chaos-'))
        try:
            self.storage, temporary = folder / 'storage', folder / 'tmp'
            temporary.mkdir()
            choice = random.Random(seed)
            if faults and choice.random() < 0.25:
                self.start(options, [self.storage, launch, seed, choice.randint(1, 36), *faults], temporary)
            self.start(options, [self.storage, launch, seed, 0, *faults], temporary)
            self.expect_nothing_left(temporary, options)
        finally:
            shutil.rmtree(folder)

    def start(self, options, arguments, temporary):
        mark = f'{os.getpid()}-{random.getrandbits(32)}'
        began = time.monotonic()
        with subprocess.Popen([options.program, *map(str, arguments)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, 'TMPDIR': str(temporary), MARK: mark}) as process:
            try:
                self.text, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                self.problems.append(f'it has not ended within {LIMIT} s')
                process.send_signal(signal.SIGABRT)
                self.text, _ = process.communicate()
        self.kills += process.returncode == -signal.SIGKILL
        self.seconds, self.status = time.monotonic() - began, process.returncode
        self.said = dict(line.split(' ', 1) for line in self.text.splitlines() if ' ' in line)
        # Of a program that is killed they end by themselves.
        end = time.monotonic() + 10 * (self.status == -signal.SIGKILL)
        while (left := processes_with(mark)) and time.monotonic() < end:
            pass
        self.problems += [f'a process is left: {process}' for process in left]

    def expect_nothing_left(self, temporary, options):
        self.problems += [line for line in self.text.splitlines() if line.startswith('open ')]
        known = {'run.json', 'progress.jsonl', 'checkpoints', '.lock'}
        run = self.storage / 'chaos'
        left = [path for path in run.glob('*') if path.name not in known]
        left += [path for path in run.glob('checkpoints/*') if not path.name.startswith('checkpoint_')]
        files = [*temporary.rglob('*')]
        memory = [*SHARED_MEMORY.iterdir()] if options.sees_memory else []
        by_mpi = []
        if options.launch == 'mpirun':
            by_mpi += [path for path in memory if path.name.startswith(OF_MPI)]
            # Where the program is killed, mpirun ends in the middle of its work, and now and then leaves its folder, too.
            by_mpi += [path for path in files if self.kills and path.relative_to(temporary).parts[0].startswith('ompi.')]
        self.left_by_mpi = len(by_mpi)
        self.problems += [f'{path} is left' for path in left + files + memory if path not in by_mpi]
        for path in memory:
            path.unlink()

    def expect_equal(self, whole):
        """Or that it was given up by a rule that says so."""
        if self.status == 1 and 'the same error has come 3 times in a row' in self.text:
            return
        if self.status != 0:
            self.problems.append('it fails')
            return
        losses = zip(self.said['losses'].split(), whole.said['losses'].split(), strict=False)  # how many there are, "reports" says
        for what in ('state', 'reports', 'weights'):
            if self.said[what] != whole.said[what]:
                self.problems.append(f'{what}: {self.said[what]} where an undisturbed run has {whole.said[what]}')
        if any(mine != its for mine, its in losses if not ('nan' in mine and 'nan_loss' in self.text)):
            self.problems.append(f'losses: {self.said["losses"]} where an undisturbed run has {whole.said["losses"]}')


def tell(run, seed, options):
    print(run.text, *run.problems, sep='\n')
    sys.exit(f'not as an undisturbed run, after {run.seconds:.1f} s. Repeat it by\n  RAYTRAIN_TEST_SEED={seed} python3 {sys.argv[0]} '
             f'{options.program} {options.launch} --runs 1{" --endless" * options.endless}')


def main():
    parser = argparse.ArgumentParser(prog='chaos.py')
    parser.add_argument('program')
    parser.add_argument('launch', choices=['threads', 'processes', 'mpirun'])
    parser.add_argument('--runs', type=int, default=20)
    parser.add_argument('--seconds', type=float, help='as many runs as there is time for')
    parser.add_argument('--endless', action='store_true', help='workers that compute for ever, too, each of which takes seconds')
    options = parser.parse_args()
    options.sees_memory = see_no_other_memory()
    lose_a_process = LOSE_A_PROCESS + options.endless * ['endless_loop']
    options.faults = SURVIVED_BY_ALL + (lose_a_process if options.launch != 'threads' else [])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first = int(os.environ.get('RAYTRAIN_TEST_SEED', random.getrandbits(32)))
    print(f'RAYTRAIN_TEST_SEED={first}', flush=True)
    whole = Run(options, 'threads', 0, [])
    if whole.status != 0 or whole.problems:
        tell(whole, 0, options)
    end = time.monotonic() + (options.seconds or 0)
    runs = failures = preemptions = kills = left_by_mpi = 0
    slowest = 0, first
    while time.monotonic() < end if options.seconds else runs < options.runs:
        run = Run(options, options.launch, first + runs, options.faults)
        run.expect_equal(whole)
        if run.problems:
            tell(run, first + runs, options)
        failures += run.text.count(' failed: ')
        preemptions += run.text.count(' is pre-empted: ')
        kills += run.kills
        left_by_mpi += run.left_by_mpi
        slowest = max(slowest, (run.seconds, first + runs))
        runs += 1
    print(f'{runs} runs with {failures} failures and {preemptions} pre-emptions, of which {kills} were killed and started again, reached the bits of an undisturbed one; '
          f'the slowest took {slowest[0]:.1f} s, seed {slowest[1]}')
    if left_by_mpi:
        print(f'mpirun has left {left_by_mpi} files of its own')
    if options.runs > 5 and failures == 0:
        sys.exit('nothing has failed')


if __name__ == '__main__':
    main()
