# SPDX-License-Identifier: Apache-2.0
"""Trains a network as the ranks of a job, and looks at the bits that it has in the end:

  torch_on_ranks.py CASE PROGRAM MPIRUN ARGUMENT...

The program is fashion_mnist, but for overlap, sharded_optimizer, local_training, sync_batch_norm and uneven_batches torch_ranks_program,
which is told the case.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

SKIPPED = 77
HOSTS = pathlib.Path(__file__).parents[1] / 'collective' / 'hosts.py'
case, program, *mpirun = sys.argv[1:]


def last_model(storage):
    """Number of the last checkpoint, and size and digest of its model."""
    last = max(storage.glob('fashion_mnist_*/checkpoints/checkpoint_*'))
    files = json.loads((last / 'manifest.json').read_text())['files']
    return int(last.name.rpartition('_')[2]), files['model.safetensors']


def arguments(storage, epochs):
    return ['--storage', str(storage), '--epochs', str(epochs), '--samples', '4000']


def train(storage, *start, epochs=2):
    status = subprocess.run([*start, *arguments(storage, epochs)], stdin=subprocess.DEVNULL, check=False).returncode
    if status == SKIPPED:
        sys.exit(SKIPPED)
    if status != 0:
        sys.exit(f'{" ".join(start)}: exit status {status}')
    return last_model(storage)


def expect_same(**models):
    if len({json.dumps(model) for model in models.values()}) > 1:
        sys.exit('\n'.join(f'{name}: {model}' for name, model in models.items()))


def same_on_threads(folder):
    expect_same(threads=train(folder / 'threads', program, '--workers', '4'),
                ranks=train(folder / 'ranks', *mpirun, '-n', '4', program))


def accumulated(folder):
    """Windows of batches, of which the averaged gradients are clipped, have the bits on ranks that they have on threads."""
    options = ['--accumulate', '3', '--clip', '0.5']
    expect_same(threads=train(folder / 'threads', program, '--workers', '3', *options),
                ranks=train(folder / 'ranks', *mpirun, '-n', '3', program, *options),
                processes=train(folder / 'processes', program, '--workers', '3', '--processes', *options))


def augmented(folder):
    """Images that threads of each worker augment have the bits that they have where each worker does it itself."""
    expect_same(threads=train(folder / 'threads', program, '--workers', '2', '--augment'),
                ahead=train(folder / 'ahead', program, '--workers', '2', '--augment', '--data-threads', '2'),
                ranks=train(folder / 'ranks', *mpirun, '-n', '2', program, '--augment', '--data-threads', '1'))


def compressed(folder):
    """Gradients of 16 bits are summed in the order of ranks everywhere, also between hosts."""
    options = ['--compression', 'bf16']
    hosts = [sys.executable, '-B', str(HOSTS), 'alpha:2,beta:2', mpirun[0], program]
    expect_same(threads=train(folder / 'threads', program, '--workers', '4', *options),
                ranks=train(folder / 'ranks', *mpirun, '-n', '4', program, *options),
                processes=train(folder / 'processes', program, '--workers', '4', '--processes', *options),
                two_hosts=train(folder / 'hosts', *hosts, *options))


def virtual_shards(folder):
    """With dropout, whose numbers are each process's own: as many virtual shards, and any number of workers, give the same bits."""
    options = ['--virtual-shards', '4', '--model', 'conv', '--batch-size', '32']
    models = {f'{workers} processes': train(folder / str(workers), program, '--processes', '--workers', str(workers), *options, epochs=1)
              for workers in (1, 2, 3)}
    hosts = [sys.executable, '-B', str(HOSTS), 'alpha:2,beta:1', mpirun[0], program]
    expect_same(ranks=train(folder / 'ranks', *mpirun, '-n', '4', program, *options, epochs=1),
                two_hosts=train(folder / 'hosts', *hosts, *options, epochs=1), **models)


def run_program(folder, *rank_counts):
    for ranks in rank_counts:
        status = subprocess.run([*mpirun, '-n', str(ranks), program, case, str(folder / str(ranks))],
                                stdin=subprocess.DEVNULL, check=False).returncode
        if status != 0:
            sys.exit(f'{ranks} ranks: exit status {status}')


def overlap(folder):
    """Gradients that are exchanged during backwards have the bits of those that are exchanged behind them; between hosts in the same buckets, where both ways are tried."""
    def digests(storage, how, start, tries=False):
        said = subprocess.run([*start, program, case, str(folder / storage), how], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
        if said.returncode == SKIPPED:
            sys.exit(SKIPPED)
        found = [line for line in said.stdout.splitlines() if line.startswith('digest ')]
        if said.returncode != 0 or len(found) != 2 or tries > (' exchanges its gradients ' in said.stdout):
            sys.exit(f'{how}: exit status {said.returncode}, {said.stdout}')
        return found

    ranks = [*mpirun, '-n', '3']
    expect_same(behind=digests('behind', 'off', ranks), beside=digests('beside', 'on', ranks), measured=digests('measured', 'measured', ranks))
    hosts = [sys.executable, '-B', str(HOSTS), 'alpha:2,beta:1', mpirun[0]]
    expect_same(beside=digests('hosts', 'on', hosts), measured=digests('hosts_measured', 'measured', hosts, tries=True))


def sharded_optimizer(folder):
    """Ranks that run a slice of an optimizer have the bits of ranks that run all of it."""
    run_program(folder, 2, 3)


def sync_batch_norm(folder):
    """Ranks that normalise over the batches of all have what one process with the joined batch has."""
    run_program(folder, 1, 3)


def uneven_batches(folder):
    """Ranks of which each has more batches than the one before train as one process with all of the batches."""
    run_program(folder, 1, 3)


def local_training(folder):
    """Models that each worker trains by itself have the bits on ranks that they have on threads, also when they are ended within a round."""
    def run(storage, start, *workers, steps):
        for step in steps:
            status = subprocess.run([*start, program, case, str(storage), str(step), *workers], stdin=subprocess.DEVNULL, check=False).returncode
            if status != 0:
                sys.exit(f'{" ".join(start)} {step}: exit status {status}')
        last = max(storage.glob('local/checkpoints/checkpoint_*'))
        files = json.loads((last / 'manifest.json').read_text())['files']
        expected = {f'{rank}{name}.safetensors' for rank in ('', 'rank_0001/', 'rank_0002/') for name in ('averaged', 'adam', 'model', 'inner')}
        if missing := expected - set(files):
            sys.exit(f'{last} lacks {missing}')
        return {name: file for name, file in files.items() if name.endswith('.safetensors')}

    expect_same(threads=run(folder / 'threads', [], '3', steps=[13]), ranks=run(folder / 'ranks', [*mpirun, '-n', '3'], steps=[7, 13]))


def two_hosts(folder):
    """With the same ranks on the same hosts, every run has the same bits."""
    start = [sys.executable, '-B', str(HOSTS), 'alpha:2,beta:2', mpirun[0], program]
    expect_same(first=train(folder / 'first', *start), second=train(folder / 'second', *start))


def environment_of(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0')
    except OSError:
        return []


def is_running(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(') ')[2][0] not in 'ZX'
    except OSError:
        return False


def killed(folder):
    """A rank that is lost ends the job at once, and the next start goes on to the bits of a run without interruption."""
    mark = f'RAYTRAIN_TEST_JOB={os.getpid()}'
    job = subprocess.Popen(['env', mark, *mpirun, '-n', '3', program, *arguments(folder / 'killed', 100_000)],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for line in job.stdout:
        if line.startswith('report') and line.split()[1] == '2':
            break
    ranks = [int(path.name) for path in pathlib.Path('/proc').glob('[0-9]*')
             if (said := environment_of(path.name)) and mark.encode() in said
             and pathlib.Path(os.readlink(path / 'exe')) == pathlib.Path(program).resolve()]
    if len(ranks) != 3:
        sys.exit(f'there are {len(ranks)} ranks, not 3')
    begin = time.monotonic()
    os.kill(max(ranks), signal.SIGKILL)
    job.stdout.read()
    status = job.wait(timeout=60)
    if status not in (137, 9) or time.monotonic() - begin > 10:
        sys.exit(f'exit status {status} {time.monotonic() - begin:.1f} s after a rank was killed')
    if left := [pid for pid in ranks if is_running(pid)]:
        sys.exit(f'processes {left} are left')
    epochs = last_model(folder / 'killed')[0] + 1
    expect_same(goes_on=train(folder / 'killed', *mpirun, '-n', '3', program, epochs=epochs),
                without_interruption=train(folder / 'whole', *mpirun, '-n', '3', program, epochs=epochs))


CASES = {function.__name__: function for function in (same_on_threads, accumulated, augmented, compressed, virtual_shards, overlap, sharded_optimizer, local_training,
                                              sync_batch_norm, uneven_batches, two_hosts, killed)}

with tempfile.TemporaryDirectory() as scratch:
    CASES[case](pathlib.Path(scratch))
