# SPDX-License-Identifier: Apache-2.0
"""Trains in Slurm's jobs, on the cluster that slurm_cluster.py starts this in:

  slurm.py CASE RANKS_PROGRAM PROGRAM_WITHOUT_RANKS
"""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from job import Job, Output, WatchedJob

case, program, without = sys.argv[1:]
BATCH_FILE = pathlib.Path(__file__).parent.parent.parent / 'examples' / 'train.sbatch'


def srun(*arguments):
    return Job('srun', '--mpi=pmix', *arguments)


class BatchJob:
    """The batch file of the examples, submitted."""

    def __init__(self, folder, *options, what='wait'):
        self.log = folder / 'log'
        self.begin = time.monotonic()
        submitted = Job('sbatch', '--parsable', '--cpus-per-task=1', f'--output={self.log}', *options, BATCH_FILE, program,
                        folder / 'runs', what)
        submitted.expect('the job is taken', submitted.status == 0)
        self.number = submitted.text.strip()

    def told(self):
        """As Slurm tells of it."""
        told = Job('scontrol', 'show', 'job', '--oneliner', self.number)
        told.expect('Slurm knows the job', told.status == 0)
        return dict(re.findall(r'(\w+)=(\S*)', told.text))

    def output(self):
        text = self.log.read_text() if self.log.exists() else ''
        return Output(text, self.told().get('ExitCode'), time.monotonic() - self.begin)

    def wait_for(self, what, seconds, holds):
        while not holds():
            output = self.output()
            output.expect(f'within {seconds} s {what}; Slurm tells {self.told()}', output.seconds < seconds)
            time.sleep(0.05)

    def wait_until_all_wait(self):
        self.wait_for('two ranks wait', 30, lambda: len(re.findall('^rank . waits$', self.output().text, re.M)) == 2)

    def wait_for_end(self):
        self.wait_for('it ends', 90, lambda: self.told()['JobState'] not in ('PENDING', 'RUNNING', 'COMPLETING'))
        return self.told(), self.output()


def sum_of(line):
    return re.search(r'sum (\S+),', line)[1]


def expect_whole(job, line, folder):
    """It has reached what a training that nothing interrupts reaches."""
    whole = srun('-N', 2, '-n', 2, program, folder / 'whole').expect_all_say(2, 'result', 'finished')
    job.expect(f'it reaches what a run without interruption reaches: {whole}', sum_of(line) == sum_of(whole))


def two_nodes(folder):
    """The bits are those of threads in rank order, with two ranks on each node."""
    job = srun('-N', 2, '--ntasks-per-node=2', program, folder / 'ranks', 'rank_order')
    result = job.expect_all_say(4, 'result', 'finished, 24 reports, 6 checkpoints', '0 warnings')
    for rank in range(4):
        job.expect(f'rank {rank} is placed', job.lines_with(
            f'rank {rank} of 4, local {rank % 2} of 2, node {rank // 2}'))
    threads = Job(without, folder / 'threads', '', 4)
    threads.expect(f'threads say {result}', threads.lines_with('result') == [result])


def expect_comes_back(job, folder):
    """SIGTERM stops all ranks after their last checkpoint, the batch file puts the job back into the queue, and its next
    start trains the rest."""
    told, output = job.wait_for_end()
    for rank in range(2):
        output.expect(f'rank {rank} is told to stop', output.lines_with(f'rank {rank} stops'))
    results = output.lines_with('result')
    output.expect('both ranks say of both starts how they ended', len(results) == 4)
    output.expect('the last checkpoint was committed', results[0] == results[1] and
                  'aborted, 6 reports, 3 checkpoints' in results[0])
    output.expect('its exit status is 75', 'Exited with exit code 75' in output.text)
    output.expect('Slurm has started it twice', told['Restarts'] == '1')
    output.expect('it has finished', told['JobState'] == 'COMPLETED' and told['ExitCode'] == '0:0')
    output.expect('the second start trains the rest', results[2] == results[3] and 'finished, 12 reports' in results[2])
    expect_whole(output, results[2], folder)


def comes_back(folder):
    """After the signal by which Slurm warns of a time limit."""
    job = BatchJob(folder)
    job.wait_until_all_wait()
    done = Job('scancel', '--signal=TERM', job.number)
    done.expect('the ranks are told', done.status == 0)
    expect_comes_back(job, folder)


def loses_rank(folder):
    """A rank is killed, which the status of srun tells, and the next start of the job goes on."""
    job = BatchJob(folder, what='kill')
    told, output = job.wait_for_end()
    output.expect(f'Slurm has started it twice, {told}', told['Restarts'] == '1' and told['JobState'] == 'COMPLETED')
    output.expect('its exit status was 137, or 14 with Open MPI 5',
                  re.search('ended with status (137|14) and goes back into the queue', output.text))
    result = output.expect_all_say(2, 'result', 'finished, 12 reports')
    expect_whole(output, result, folder)


def time_limit(folder):
    """By Slurm's own clock: it looks every 30 seconds which jobs have 50 seconds left, or will have before it looks again."""
    expect_comes_back(BatchJob(folder, '--time=1', '--signal=TERM@50'), folder)


def cancelled(folder):
    """A job that its user cancels ends in order, does not come back, and another one goes on with its run."""
    job = BatchJob(folder)
    job.wait_until_all_wait()
    done = Job('scancel', job.number)
    done.expect('it is cancelled', done.status == 0)
    told, output = job.wait_for_end()
    output.expect(f'Slurm tells that it was cancelled, {told}', told['JobState'] == 'CANCELLED' and told['Restarts'] == '0')
    record = (folder / 'runs' / 'ranks' / 'run.json').read_text()
    output.expect(f'the run was stopped, {record}', json.loads(record)['state'] == 'aborted')
    again = srun('-N', 2, '-n', 2, program, folder / 'runs')
    result = again.expect_all_say(2, 'result', 'finished')
    expect_whole(again, result, folder)


def node_down(folder):
    """In an allocation that outlives its nodes (--no-kill) a program with supervised ranks goes on with those that are left."""
    os.environ.update(RAYTRAIN_TEST_LAUNCH='mpirun', RAYTRAIN_TEST_RANK_ORDER='1', RAYTRAIN_TEST_COMMAND='srun --mpi=pmix')

    def lose_beta(*_):
        done = Job('scontrol', 'update', 'nodename=beta', 'state=down', 'reason=test')
        done.expect('beta is down', done.status == 0)

    job = WatchedJob('salloc', '--no-kill', '-N', 2, '--ntasks-per-node=4', program, folder, 'wait_once', 4, 2, 1,
                     steps=[('rank 2 waits', 1, lose_beta)])
    result = job.expect_all_say(1, 'result', 'finished, 24 reports, 6 checkpoints', '2 attempts')
    job.expect('it is noticed soon', job.seconds_since_step < 30)
    nodes = json.loads((folder / 'ranks' / 'run.json').read_text())['hosts']
    job.expect(f'it has trained on alpha in the end, {nodes}', nodes == ['alpha'])
    os.environ['RAYTRAIN_TEST_LAUNCH'] = 'threads'
    whole = Job(without, folder / 'threads', '', 4).expect_all_say(1, 'result', 'finished')
    job.expect(f'it reaches what threads reach: {whole}', sum_of(result) == sum_of(whole))


def without_pmix(folder):
    """Without PMIx each process would be a job of its own."""
    job = Job('srun', '-n', 2, program, folder / 'runs')
    job.expect_all_say(2, 'error', 'srun --mpi=pmix')
    job.expect('it ends by the program', job.status == 2)
    job.expect('nothing was created', not (folder / 'runs').exists())


CASES = {function.__name__: function for function in (two_nodes, comes_back, loses_rank, time_limit, cancelled, node_down, without_pmix)}

scratch = pathlib.Path(tempfile.mkdtemp(dir='/run'))
try:
    CASES[case](scratch)
finally:
    shutil.rmtree(scratch)
