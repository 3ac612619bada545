# SPDX-License-Identifier: Apache-2.0
"""Boosts as the ranks of a job, which go wrong in the middle of a round, and looks at what is left of them:

  boosting_on_ranks.py CASE PROGRAM MPIRUN ARGUMENT...
"""
import json
import pathlib
import re
import shutil
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'launch'))
from job import SKIPPED, Job  # noqa: E402

case, program, *mpirun = sys.argv[1:]


def ranks(count, *arguments):
    return Job(*mpirun, '-n', count, program, *arguments)


def last_model(storage):
    models = sorted(storage.glob('ranks/checkpoints/*/booster.*'))
    return models[-1].read_bytes() if models else b''


def said_at(line):
    return float(re.search(r' at ([\d.]+) s$', line)[1])


def when_wrong(job):
    job.expect('a rank goes wrong', len(job.lines_with('goes wrong')) == 1)
    return said_at(job.lines_with('goes wrong')[0])


def expect_nothing_left(job):
    job.expect_nobody_left()
    ports = re.findall(r'^listens: port (\d+)', job.text, re.MULTILINE)
    if 'xgboost' in program:  # rank 0 itself listens only until all have connected
        job.expect("XGBoost's tracker has listened", ports)
    for port in ports:
        with socket.socket() as probe:
            job.expect(f'nobody listens at port {port} any more', probe.connect_ex(('127.0.0.1', int(port))) != 0)


def expect_finished(job, rounds):
    job.expect(f'3 ranks boost {rounds} rounds', len(job.lines_with(f'result finished, rounds {rounds},')) == 3)


def expect_goes_on(job, storage, least):
    """The next start goes on from the last checkpoint, to the model of a run without interruption."""
    committed = max(int(path.name.rpartition('_')[2]) for path in (storage / 'ranks' / 'checkpoints').glob('checkpoint_*'))
    job.expect(f'of 3 checkpoints {least} or more are committed, not {committed}', least <= committed <= 3)
    expect_finished(ranks(3, storage), 12 - committed)
    whole = storage.with_name('whole')
    job = ranks(3, whole)
    expect_finished(job, 12)
    job.expect('both have the same model', last_model(storage) == last_model(whole) != b'')


def expect_one_model(job, folder, count, alone):
    job.expect('it ends well', job.status == 0)
    stored = [(folder / f'model_{rank}').read_bytes() for rank in range(count)]
    job.expect('all ranks have one model', len(set(stored)) == 1)
    job.expect('it comes from parts of the rows', stored[0] != (folder.parent / 'model_0').read_bytes())
    auc, expected = (float(re.search(r'AUC ([\d.]+)', text)[1]) for text in (job.text, alone.text))
    job.expect(f'the AUC of {count} ranks, {auc}, is about {expected}', abs(auc - expected) < 0.01)


def models(storage):
    """All ranks have one model, about as good as that of one process."""
    storage.mkdir()
    alone = Job(program, storage, 'models')
    for count in 2, 3:
        folder = storage / str(count)
        folder.mkdir()
        expect_one_model(ranks(count, folder, 'models'), folder, count, alone)


def blocks(storage):
    """Ranks that read a file of their own, block by block, have the model of the same rows in memory."""
    storage.mkdir()
    of_memory, of_blocks = storage / 'memory', storage / 'blocks'
    for folder, what in (of_memory, 'models'), (of_blocks, 'blocks'):
        folder.mkdir()
        job = ranks(2, folder, what)
        job.expect('it ends well', job.status == 0)
    stored = {(folder / f'model_{rank}').read_bytes() for folder in (of_memory, of_blocks) for rank in range(2)}
    job.expect('there is one model', len(stored) == 1)


def blocks_end(storage):
    """One of the files is cut, removed or empty: no rank waits, and all name the file and what has happened to it."""
    storage.mkdir()
    for what, said in ('cut', 'it was changed meanwhile'), ('removed', 'there is no such file'), ('empty', 'there are no rows'):
        folder = storage / what
        folder.mkdir()
        job = ranks(2, folder, f'blocks_{what}')
        failed = job.lines_with('failed: ')
        job.expect('both ranks say why', len(failed) == 2)
        begin = when_wrong(job)
        for line in failed:
            job.expect('rank 1 is the one that is named', 'rank 1 on ' in line and 'rank 0 on ' not in line)
            job.expect(f'it says "{said}" of rows_1.csv', said in line and 'rows_1.csv' in line)
            job.expect('they end within a second', said_at(line) - begin < 1)
        job.expect('both have said which process they are', len(job.lines_with('rank ')) == 2)
        job.expect_nobody_left()


def materialized(storage):
    """A file that is cut while one rank materializes it for both: neither has rows of it, and both name it."""
    storage.mkdir()
    job = ranks(2, storage, 'materialized')
    failed = job.lines_with('failed: ')
    job.expect('both ranks say why', len(failed) == 2)
    for line in failed:
        job.expect('they name the file and what has happened', "rows_0.csv': it was changed meanwhile" in line)
    job.expect('both have said which process they are', len(job.lines_with('rank ')) == 2)
    job.expect_nobody_left()
    job.expect('no next start finds rows', not json.loads((storage / 'rows' / 'raytrain_dataset.json').read_text())['is_complete'])


def two_hosts(storage):
    """So have they where there is only a network between some of them."""
    storage.mkdir()
    alone = Job(program, storage, 'models')
    folder = storage / 'hosts'
    folder.mkdir()
    driver = pathlib.Path(__file__).parents[1] / 'collective' / 'hosts.py'
    job = Job(sys.executable, '-B', driver, 'alpha:2,beta:1', mpirun[0], program, folder, 'models')
    if job.status == SKIPPED:
        print(job.text.strip())
        sys.exit(SKIPPED)
    expect_one_model(job, folder, 3, alone)


def throws(storage):
    job = ranks(3, storage, 'throw')
    failed = job.lines_with('failed: ')
    job.expect('all ranks say why', len(failed) == 3)
    begin = when_wrong(job)
    for line in failed:
        job.expect('rank 1 is the one that is named', 'rank 1 on ' in line and 'as planned' in line)
        job.expect('no other one is', 'rank 0 on ' not in line and 'rank 2 on ' not in line)
        job.expect('they end within a second', said_at(line) - begin < 1)
    expect_nothing_left(job)
    expect_goes_on(job, storage, 3)


def restarts(storage):
    """Ranks boost on in their processes when one has thrown, to the model that nothing disturbs."""
    job = ranks(3, storage, 'restart')
    when_wrong(job)
    job.expect('all ranks end well', len(job.lines_with('result finished')) == 3 and job.status == 0)
    expect_nothing_left(job)
    whole = storage.with_name('whole')
    expect_finished(ranks(3, whole), 12)
    job.expect('both have the same model', last_model(storage) == last_model(whole) != b'')


def killed(storage):
    job = ranks(3, storage, 'kill')
    begin = when_wrong(job)
    for line in job.lines_with('failed: '):  # unless the launcher has ended them first
        job.expect('they name the rank that is lost', 'rank 1 on ' in line and 'is lost' in line)
        job.expect('they end within a second', said_at(line) - begin < 1)
    job.expect('it fails as the launcher tells a signal', job.status in (137, 9))
    job.expect('it ends within 10 s', job.seconds < 10)
    expect_nothing_left(job)
    expect_goes_on(job, storage, 1)


def signalled(storage):
    """SIGTERM to one of the processes stops all of them behind the same round."""
    job = ranks(3, storage, 'signal')
    job.expect('all ranks stop', len(job.lines_with('result aborted')) == 3)
    job.expect('it ends by the status with which a scheduler starts it again', job.status == 75)
    job.expect('the last round has a checkpoint', last_model(storage) != b'')
    expect_nothing_left(job)


CASES = {function.__name__: function for function in (models, blocks, blocks_end, materialized, two_hosts, throws, restarts, killed, signalled)}

scratch = pathlib.Path(tempfile.mkdtemp())
try:
    CASES[case](scratch / 'runs')
finally:
    shutil.rmtree(scratch)
