# SPDX-License-Identifier: Apache-2.0
"""Trains as the ranks of a job, and looks at what all of them say:

  ranks.py CASE RANKS_PROGRAM PROGRAM_WITHOUT_RANKS COMMUNICATOR_PROGRAM MPIRUN ARGUMENT...
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from job import SKIPPED, Job, WatchedJob, ask_for_option, job_on_hosts

case, program, without, with_mpi, *mpirun = sys.argv[1:]


def ranks(count, *arguments):
    return Job(*mpirun, '-n', count, program, *arguments)


def is_hydra():
    """Whether mpirun is MPICH's. Its exit status may be that of ranks that it ends itself, or 0, and it waits for all who have inherited
    its connections."""
    return 'HYDRA' in subprocess.run([mpirun[0], '--version'], capture_output=True, text=True, check=False).stdout


def same_on_threads(folder):
    """The parameters are bit for bit those of as many threads, and callbacks live in one process."""
    job = ranks(4, folder / 'ranks')
    result = job.expect_all_say(4, 'result', 'finished, 24 reports, 6 checkpoints', '0 warnings')
    job.expect('callbacks are called in one process', len(job.lines_with('callback')) == 1)
    for rank in range(4):
        job.expect(f'rank {rank} is placed', job.lines_with(f'rank {rank} of 4, local {rank} of 4, node 0'))
    threads = Job(without, folder / 'threads', '', 4)
    threads.expect(f'threads say {result}', threads.lines_with('result') == [result])


def goes_on(folder):
    """After a rank's end in the middle the next start goes on from the last checkpoint."""
    job = ranks(2, folder)
    job.expect_all_say(2, 'result', 'finished, 12 reports')
    job.expect('it ends well', job.status == 0)
    again = ranks(2, folder)
    again.expect_all_say(2, 'result', 'nothing left 1')


def begins_from_other_run(folder):
    """Every rank begins with the other run's checkpoint, and all have the same one."""
    ranks(2, folder)
    job = ranks(2, folder, 'begin_elsewhere')
    job.expect_all_say(2, 'error', 'rank 1', 'RunConfig::resume_from_checkpoint is ', 'checkpoint 2 of the run',
                       ", and on rank 0 it is '", 'checkpoint 4 of the run')
    job.expect('nothing was created', not (folder / 'tuned').exists())
    job = ranks(2, folder, 'begin_there')
    job.expect_all_say(2, 'begins after epoch 3, with epoch 0')
    job.expect_all_say(2, 'result', 'finished', '4 reports, 2 checkpoints', '0 warnings')
    again = ranks(2, folder, 'begin_there')
    again.expect_all_say(2, 'result', 'finished', '4 reports, 2 checkpoints', 'nothing left 1')
    again.expect('it goes on from its own', not again.lines_with('begins after'))
    shutil.rmtree(folder / 'tuned')
    shutil.rmtree(folder / 'ranks')
    job = ranks(2, folder, 'begin_there')
    job.expect_all_say(2, 'error', 'RunConfig::resume_from_checkpoint', 'checkpoint_000004')
    job.expect('nobody trains', not job.lines_with('rank '))


def metadata(folder):
    """All have what rank 0 has, though each names another."""
    job = ranks(2, folder, 'metadata')
    number = job.lines_with('callback')[0].split()[-1]
    job.expect_all_say(2, f'metadata {number}')
    job.expect_all_say(2, f'kept metadata {number}, in {number}, by {number}')


def env(folder):
    """The environment of ranks, and of threads, is not raytrain's to set."""
    job = ranks(2, folder, 'env')
    # The first rank to end may take the other one with it before that says the same.
    refusals = job.lines_with("error: RunConfig::env: sets 'HOME' for processes that raytrain starts, and the ranks of this job were "
                              'started by another program; ')
    advice = 'mpirun -x HOME=..., srun --export=ALL,HOME=...; or write Launch::mpirun'
    job.expect('each rank that says something refuses it', refusals and all(advice in line for line in refusals))
    threads = Job(program, folder, 'env', 2)
    threads.expect_all_say(1, 'error', 'RunConfig::env', 'threads have the environment of their program',
                           'HOME=... ./program; or write Launch::processes')
    job.expect('nothing was created', not folder.exists())


def environment(folder):
    """Every rank is told its place as torchrun tells it."""
    job = ranks(2, folder, 'environment')
    job.expect('each has its own', sorted(job.lines_with('environment')) == ['environment 0 2 0 2', 'environment 1 2 1 2'])
    job.expect_all_say(2, 'result', 'finished')


def prints(folder):
    job = ranks(3, folder, 'print')
    job.expect('rank 0 prints, in order', job.lines_with('printed') == [f'printed in epoch {epoch} by rank 0' for epoch in range(6)])
    job.expect_all_say(3, 'result', 'finished', '0 warnings')


def torchrun(folder):
    """One of several processes that do not know of each other does not train by itself, unless it is told to."""
    for one in (program, without):
        job = Job('env', 'RANK=0', 'WORLD_SIZE=2', 'LOCAL_RANK=0', one, folder)
        job.expect_all_say(1, 'error', 'by RANK and WORLD_SIZE this process is one of 2 that torchrun', 'start the program by mpirun')
        job = Job('env', 'RAYTRAIN_TEST_LAUNCH=processes', 'RANK=0', 'WORLD_SIZE=2', one, folder)
        job.expect_all_say(1, 'error', 'Launch::processes is asked for in one of 2 processes that torchrun')
        job.expect('nothing was created', not folder.exists())
    Job('env', 'RAYTRAIN_TEST_LAUNCH=threads', 'RANK=0', 'WORLD_SIZE=2', without, folder).expect_all_say(1, 'result', 'finished')


def own_store(folder):
    """The checkpoints of a program that brings its store lie in it; the next start finds them, on all ranks."""
    job = ranks(2, folder, 'own_store')
    job.expect_all_say(2, 'result', 'finished, 12 reports, 6 checkpoints', '0 warnings')
    job.expect('they lie there alone', (folder / 'big disk/ranks/checkpoint_000006').is_dir() and
               not (folder / 'ranks/checkpoints').exists())
    shutil.rmtree(folder / 'big disk/ranks/checkpoint_000006')
    again = ranks(2, folder, 'own_store')
    again.expect_all_say(2, 'result', 'finished, 12 reports, 6 checkpoints')
    again.expect('epoch 5 is trained again', (folder / 'big disk/ranks/checkpoint_000006').is_dir())


def throws(folder):
    job = ranks(3, folder, 'throw')
    job.expect_all_say(3, 'failed', 'rank 1 on ', 'as planned', 'start it again to go on from', 'errored')
    job.expect('it ends within 10 s', job.seconds < 10)
    job.expect_nobody_left()
    goes_on_from(folder, 3)


def restarts(folder):
    """Workers are started again in the same processes, which all say the same of it, and reach what undisturbed ones do."""
    for count in (1, 2, 4):
        whole = ranks(count, folder / f'whole {count}').expect_all_say(count, 'result', 'finished', '1 attempts')
        job = ranks(count, folder / f'ranks {count}', 'throw', count, 1, 1)
        attempts = '1 attempts' if count == 1 else '2 attempts'
        result = job.expect_all_say(count, 'result', 'finished', f'{6 * count} reports, 6 checkpoints', attempts, '0 warnings')
        sums = [re.search(r'sum \S+', line)[0] for line in (result, whole)]
        job.expect(f'it reaches what undisturbed workers reach, {sums}', sums[0] == sums[1])
        job.expect('no process is another one', len(set(re.findall(r'process (\d+)$', job.text, re.MULTILINE))) == count)
        job.expect('it ends well', job.status == 0)
        job.expect_nobody_left()
    threads = Job(without, folder / 'threads', 'throw', 4, 1, 1)
    threads.expect(f'threads say {result}', threads.lines_with('result') == [result.replace('whole', 'ranks')])
    dies(folder / 'killed', 'kill', 137, 9, max_failures=1)
    for where in (0, 1):
        job = ranks(3, folder / f'refused {where}', 'refuse', 3, where, -1)
        job.expect('the same error ends it at last', 'no such device here' in job.text and job.status in (1, 2))
        job.expect('it ends within 10 s', job.seconds < 10)
        job.expect_nobody_left()


def restarts_on_hosts(folder):
    """Between hosts MPI may still write to what a worker had that waited in it: another one must then wait for the next start."""
    job = on_hosts(TWO_HOSTS, folder / 'hosts', 'throw', 4, 1, 1)
    if job.lines_with('result'):
        job.expect_all_say(4, 'result', 'finished', '2 attempts')
    else:
        job.expect_all_say(4, 'failed', 'rank 1 on ', 'as planned')
        job.expect('it says why', 'the workers are not started again: a process of the job is lost, or has' in job.text)
    again = on_hosts(TWO_HOSTS, folder / 'hosts').expect_all_say(4, 'result', 'finished')
    whole = on_hosts(TWO_HOSTS, folder / 'whole').expect_all_say(4, 'result', 'finished')
    sums = [re.search(r'sum \S+', line)[0] for line in (again, whole)]
    job.expect(f'it reaches what undisturbed workers reach, {sums}', sums[0] == sums[1])


def large_results(folder):
    """What is too much for one message is left out on the other ranks, which say so; nobody loses the rest."""
    job = ranks(2, folder / 'warnings', 'warnings')
    job.expect('both ranks finish', len(job.lines_with('result finished, 12 reports, 6 checkpoints')) == 2)
    for count in (9000, 101):
        job.expect(f'a rank has {count} warnings', sum(f', {count} warnings' in line for line in job.lines_with('result')) == 1)
    job = ranks(2, folder / 'error', 'long_error')
    job.expect('both ranks know the cause', len(re.findall(r'^failed: .*rank 1 on \S+: x+ \.\.\. \(49934464 bytes more\)', job.text, re.MULTILINE)) == 2)
    job.expect_nobody_left()


def keeps_causes(folder):
    """A program on any rank tells a full disk from a bug, and a worker's fault from the controller's."""
    job = ranks(3, folder / 'bug', 'throw')
    job.expect_all_say(3, 'failures: exception of rank 1 [|as planned|]')
    job = ranks(3, folder / 'worker', 'full_disk')
    job.expect_all_say(3, 'failed', "rank 1 on ", "write 'model': No space left on device; make room")
    job.expect_all_say(3, "failures: io of rank 1 [write 'model'|No space left on device|make room]")
    job = ranks(2, folder / 'log', 'full_log')
    line = job.expect_all_say(2, 'failed', 'the controller on ', 'writing /dev/full')
    causes = job.expect_all_say(2, 'failures: io of no rank [callback ')
    job.expect('no worker is blamed', 'of rank' not in causes and 'rank 0 on' not in line)


def dies(folder, what, *statuses, max_failures=0):
    job = ranks(3, folder, what, 3, 1, max_failures)
    failed = job.lines_with('failed')
    job.expect('the others say why, or are ended by the launcher first', len(failed) in (0, 1, 2))
    for line in failed:
        job.expect('they name the rank and its process', re.search(r'rank 1 on \S+: process \d+ is lost', line))
    job.expect(f'the exit status is one of {statuses}', job.status in statuses)
    job.expect('it ends within 10 s', job.seconds < 10)
    job.expect_nobody_left()
    goes_on_from(folder, 3)


def goes_on_from(folder, count):
    again = ranks(count, folder)
    result = again.expect_all_say(count, 'result', 'finished')
    whole = ranks(count, f'{folder}.whole').expect_all_say(count, 'result', 'finished')
    sums = [re.search(r'sum \S+', line)[0] for line in (result, whole)]
    again.expect(f'it reaches what a run without interruption reaches, {sums}', sums[0] == sums[1])


def killed(folder):
    dies(folder, 'kill', 137, 9)  # the launcher's own: Open MPI's 128 and the signal, MPICH's the signal


def exits(folder):
    dies(folder, 'exit', 75)


def exits_on_threads(folder):
    """A training function that calls exit() has not finished its training."""
    for what in ('exit', 'quick_exit'):
        job = Job(without, folder / what, what, 2)
        job.expect('it says why it ends', 'raytrain: the program called exit() before fit() had returned' in job.text)
        job.expect('the exit status is 75', job.status == 75)
        Job(without, folder / what, '', 2).expect_all_say(1, 'result', 'finished')
    Job(without, folder / 'at_once', '_exit', 2)
    again = Job(without, folder / 'at_once', '', 2)
    again.expect_all_say(1, 'result', 'finished')
    again.expect('the next start says what nobody could say before',
                 again.lines_with('warning: the start before this one did not come to its end: '))


def exits_quickly(folder):
    launchers = (0, 9) if is_hydra() else ()
    dies(folder / 'quick', 'quick_exit', 75, *launchers)
    dies(folder / 'at_once', '_exit', 75, 1, *launchers)  # or mpirun's own for a rank that has left MPI without a word


def forks(folder):
    """A worker's children neither report as the worker, nor hold the run's lock, nor end the run."""
    on_ranks = [] if is_hydra() else [((*mpirun, '-n', 2, program), folder / 'ranks')]
    for command, run in [((without,), folder / 'threads'), *on_ranks]:
        job = Job(*command, run, 'fork', 2)
        lasting = re.search(r'lasting child (\d+): (.*)', job.text)
        job.expect('the child that stays may not report', lasting and 'was forked from the worker' in lasting[2])
        try:
            job.expect('each child ends as it should',
                       'stopped child: 15, returning child: 1, exiting child: 3' in job.text)
            lines = job.lines_with('result')
            job.expect('the run has what its workers reported', lines and all('finished, 12 reports, 6' in line for line in lines))
            again = Job(*command, run, '', 2)
            again.expect('the run is free although the child lives', again.lines_with('result finished') and again.status == 0)
        finally:
            os.kill(int(lasting[1]), signal.SIGKILL)


def few_open_files(folder):
    """Where files cannot be opened the error says what to do."""
    for files in range(4, 13):
        job = Job('prlimit', f'--nofile={files}', without, folder / str(files), '', 2)
        job.expect(f'{files} files are enough, or the advice is there', job.status == 0 or 'raise the limit (ulimit -n)' in job.text)


def returns_early(folder):
    job = ranks(3, folder, 'return')
    said = job.expect_all_say(3, 'failed')
    job.expect('whoever noticed it first says so', 'rank 1 returned after 3 of them' in said or 'rank 1 has ended' in said)
    job.expect('it ends within 10 s', job.seconds < 10)


def refused_by_backend(folder):
    job = ranks(3, folder, 'refuse')
    job.expect_all_say(3, 'failed', 'rank 1 on ', 'no such device here', '0 reports')
    job.expect('it ends within 10 s', job.seconds < 10)


def refused_by_constructor(folder):
    """A backend that cannot be made on one rank ends the run on all of them."""
    job = ranks(3, folder / 'one', 'construct', 3, 1)
    job.expect_all_say(3, 'failed', 'rank 1 on ', 'no such device here', '0 reports')
    job.expect('it ends within 10 s', job.seconds < 10)
    job = ranks(3, folder / 'zero', 'construct', 3, 0)
    job.expect('rank 0 says why', job.lines_with('error: no such device here'))
    job.expect('the others say so', len([line for line in job.lines_with('error') if 'no such device here' in line]) == 3)
    job.expect('it ends within 10 s', job.seconds < 10)


def refused_by_no_exception(folder):
    """What is thrown need not be a std::exception."""
    job = ranks(3, folder, 'refuse_oddly', 3, 1)
    job.expect_all_say(3, 'failed', 'rank 1 on ', 'an exception of type int', '0 reports')
    job.expect('it ends within 10 s', job.seconds < 10)


def hangs(folder, what, stuck, command):
    """A worker that never returns: the others say why, its process says so too and ends, and the next start goes on."""
    job = Job(*command, folder, what, 3)
    job.expect('the error names the rank that has not come', re.search(rf'rank[s0-9, and]* {stuck}\b[s0-9, and]* ha(s|ve) not come within 1 s', job.text))
    job.expect('the error names the rank that does not return',
               re.search(rf'raytrain: training .* ends without rank {stuck}, which did not return', job.text) and
               re.search(rf'rank {stuck} on \S+: did not return although it was told to', job.text))
    job.expect('the exit status is 75', job.status == 75)
    job.expect('it ends within 20 s', job.seconds < 20)
    job.expect_nobody_left()


def hangs_on_another_rank(folder):
    hangs(folder, 'hang', 1, [*mpirun, '-n', 3, program])
    goes_on_from(folder, 3)


def hangs_on_first_rank(folder):
    hangs(folder, 'hang_first', 0, [*mpirun, '-n', 3, program])
    goes_on_from(folder, 3)


def hangs_on_threads(folder):
    hangs(folder, 'hang', 1, [without])
    Job(without, folder, '', 3).expect_all_say(1, 'result', 'finished')


def send(number):
    return lambda process, said: process.send_signal(number)


def send_to_rank(rank, number):
    def act(_, said):
        os.kill(int(re.search(rf'^rank {rank} .* process (\d+)$', said, re.MULTILINE)[1]), number)
    return act


def interrupted_twice(folder):
    """The second Ctrl-C ends a program at once whose workers compute, be they threads or ranks."""
    job = WatchedJob(without, folder / 'threads', 'compute', 2, steps=[
        ('rank ', 4, send(signal.SIGINT)), ('warning: a stop was requested', 1, send(signal.SIGINT))])
    expect_ended_at_once(job, 'rank 0, rank 1')
    Job(without, folder / 'threads', '', 2).expect_all_say(1, 'result', 'finished')
    job = WatchedJob(*mpirun, '-n', 2, program, folder, 'compute', steps=[
        ('rank ', 4, send_to_rank(1, signal.SIGINT)),
        ('warning: a stop was requested', 1, send_to_rank(1, signal.SIGINT))])
    expect_ended_at_once(job, 'rank 0, rank 1')
    goes_on_from(folder, 2)


def expect_ended_at_once(job, who):
    job.expect('it says who was left behind',
               f"training 'ranks' ends without {who}, which did not return: a stop was requested;" in job.text)
    job.expect('it ends by the status with which a scheduler starts it again', job.status == 75)
    job.expect('it ends before the grace is over', job.seconds_since_step < 4)
    job.expect_nobody_left()


def loses_first_rank(folder):
    """A rank whose worker computes when rank 0 is killed says so and ends, where the launcher does not end it."""
    job = WatchedJob(*mpirun, ask_for_option(mpirun[0], '--enable-recovery'), '-n', 2, program, folder, 'compute', steps=[
        ('rank ', 4, send_to_rank(0, signal.SIGKILL))])
    said = job.lines_with('raytrain: training on rank 1 ends without its worker, which did not return: '
                          f'the connection to the controller on rank 0 on {socket.gethostname()} ended: ')
    job.expect('rank 1 says why it ends, or is ended by the launcher, which then fails', len(said) == 1 or job.status != 0)
    job.expect('it ends when the grace is over', job.seconds_since_step < 20)
    job.expect_nobody_left()
    goes_on_from(folder, 2)


def signalled(folder):
    """SIGTERM to one of the processes stops all, and the next start goes on."""
    job = ranks(3, folder, 'signal')
    job.expect_all_say(3, 'result', 'aborted')
    job.expect('it ends by the status with which a scheduler starts it again', job.status == 75)
    goes_on_from(folder, 3)


def stopped_in_a_report(folder):
    """A rank whose report throws Stopped ends the waits of ranks that have passed theirs, on its host and on others."""
    for where in ('first', 'second'):
        run = folder / where
        for job in (ranks(4, run / 'one', f'told_on_{where}_host'), on_hosts(TWO_HOSTS, run / 'two', f'told_on_{where}_host')):
            job.expect_all_say(4, 'result', 'aborted', ' 4 checkpoints', ' 1 warnings')
            job.expect('it ends by the status with which a scheduler starts it again', job.status == 75)
            job.expect('it ends before the grace of a minute is over', job.seconds < 30)
        on_hosts(TWO_HOSTS, run / 'two').expect_all_say(4, 'result', 'finished')


def ended_by_mpirun(folder):
    """Ctrl-C and SIGTERM for mpirun, which kills all ranks a second after it has told them, and a terminal that is
    gone: the run is stopped in order, and the next start goes on."""
    for number, send_to in (signal.SIGINT, send), (signal.SIGTERM, send), (signal.SIGHUP, lambda n: send_to_rank(1, n)):
        run = folder / str(number)
        job = WatchedJob(*mpirun, '-n', 3, program, run, 'wait', steps=[('rank ', 6, send_to(number))])
        if number == signal.SIGHUP:  # Open MPI 5's mpirun passes nothing on once it has had a signal itself
            job.expect('every rank is told', len(job.lines_with('result aborted')) == 3)
        job.expect('it fails', job.status != 0)
        job.expect('its record says so', json.loads((run / 'ranks' / 'run.json').read_text())['state'] == 'aborted')
        job.expect('it ends before it is killed', job.seconds_since_step < 4)
        goes_on_from(run, 3)


def twice(folder):
    job = ranks(2, folder, 'twice')
    job.expect_all_say(2, 'result', 'finished')
    job.expect_all_say(2, 'again result', 'finished', 'nothing left 1')


def leaves_before_second_fit(folder):
    """Ranks that do not come to a second fit() are named by who waits for them, and end with it."""
    job = ranks(3, folder, 'leave')
    job.expect_all_say(3, 'result', 'finished')
    job.expect_all_say(1, 'alone: ', 'bringing all ranks together on rank 0', 'ranks 1 and 2 have not come within 1 s')
    job.expect_all_say(1, 'error', 'has not come, in an earlier fit()', 'start it again')
    job.expect('the exit status is 75', job.status == 75)
    job.expect('it ends within 20 s', job.seconds < 20)
    job.expect_nobody_left()


def inside_another(folder):
    """Ranks train one thing at a time, and the first one goes on."""
    job = ranks(2, folder, 'inside')
    job.expect_all_say(1, 'inside: fit() on ranks: another fit() of this process has not returned; call one after '
                          'the other')
    job.expect_all_say(2, 'result', 'finished, 12 reports')
    job.expect('it ends well', job.status == 0)


ON_RANK_1 = 'if [ "${PMIX_RANK:-${PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = 1 ]; then '


def comes_never(folder):
    """MPI waits for ever for a process that does not come to MPI_Init, which is said."""
    job = WatchedJob(*mpirun, '-n', 3, 'sh', '-c', ON_RANK_1 + 'exec tail -f /dev/null; fi; exec "$@"', 'sh', program, folder,
                     steps=[('raytrain: rank 0 has waited', 1, send(signal.SIGTERM))])
    job.expect_all_say(1, 'raytrain: rank 0 has waited 10 s in MPI_Init: not all processes of the job have come to fit()')
    job.expect('it fails', job.status != 0 or is_hydra())
    job.expect('nothing was created', not folder.exists())


def settings_differ(folder):
    job = ranks(2, folder, 'seed')
    job.expect_all_say(2, 'error', 'rank 1', 'RunConfig::seed is 1, and on rank 0 it is 0')
    job.expect('nothing was created', not folder.exists())
    job = ranks(2, folder, 'rate')
    job.expect_all_say(2, 'error', 'rank 1', "TrainerConfig::backend is {'rate', {1}, 1.5}, and on rank 0 it is {'rate', {1}, 0.5}")
    job = ranks(2, folder, 'split')
    job.expect_all_say(2, 'error', 'rank 1', "DataConfig::datasets_to_split is {}, and on rank 0 it is {'train'}")
    job = ranks(2, folder, 'content')
    job.expect_all_say(2, 'error', 'rank 1', "the digest of the dataset 'train' is '", "', and on rank 0 it is '")
    job = ranks(2, folder, 'stores_differ')
    job.expect_all_say(2, 'error', 'rank 1', "RunConfig::checkpoint.store is 'set', and on rank 0 it is 'not set'")
    job = ranks(2, folder, 'more')
    job.expect_all_say(2, 'error', 'rank 1', "TrainerConfig::datasets is 'train', and on rank 0 it is 'train, valid'")
    job.expect('nothing was created', not folder.exists())


def other_size(folder):
    job = ranks(2, folder, '', 3)
    job.expect_all_say(2, 'error', 'ScalingConfig::num_workers', 'is 3, and the job has 2 ranks')
    job.expect('nothing was created', not folder.exists())


def built_without_ranks(folder):
    job = Job(*mpirun, '-n', 2, without, folder)
    # The launcher ends the others with the first one, which may be before they have spoken.
    job.expect_all_say(len(job.lines_with('error')) or 1, 'error', 'one of 2 that', 'has started',
                       '#include <raytrain/launch/ranks.hpp>')
    job.expect('it fails', job.status != 0)
    job.expect('nothing was created', not folder.exists())


def own_communicator(folder):
    """Two trainings side by side, in a program that has begun MPI itself and goes on using it."""
    job = Job(*mpirun, '-n', 4, with_mpi, folder, 'halves')
    job.expect('it ends well', job.status == 0)
    for half, added in (0, 0 + 2), (1, 1 + 3):
        line = f'result half_{half}: 2 reports, ranks add up to {added}'
        job.expect(f'2 ranks say "{line}"', job.lines.count(line) == 2)
    job.expect_all_say(4, 'MPI goes on with 4')


def no_communicator(folder):
    job = Job(*mpirun, '-n', 2, with_mpi, folder, 'null')
    job.expect_all_say(2, 'error', 'needs a communicator (got MPI_COMM_NULL)')
    job.expect('nothing was created', not folder.exists())


def processes_in_a_job(folder):
    job = Job('env', 'RAYTRAIN_TEST_LAUNCH=processes', *mpirun, '-n', 2, program, folder)
    said = job.lines_with('error: ScalingConfig::launch: Launch::processes is asked for in one of 2 processes')
    job.expect('it says so, on both unless mpirun ends one with the other', len(said) in (1, 2))
    job.expect('it says what to write', all('; start the program by itself, or write Launch::ranks' in line for line in said))
    job.expect('nobody trains', not (folder / 'ranks').exists())


def too_few_threads(folder):
    job = Job(*mpirun, '-n', 2, with_mpi, folder, 'single')
    job.expect_all_say(2, 'error', 'needs MPI_THREAD_SERIALIZED', 'initialised with MPI_THREAD_SINGLE')
    job.expect('nothing was created', not folder.exists())


def other_mpi(folder):
    """Started by another MPI's mpirun, each process would be a job of its own."""
    job = Job('env', 'PMI_RANK=0', 'PMI_SIZE=2', program, folder)
    job.expect_all_say(1, 'error', 'it has started 2 processes', 'start it by the mpirun of the MPI that it was built with')
    job.expect('nothing was created', not folder.exists())


def other_run_in_folder(folder):
    """What rank 0 alone finds out is every rank's error."""
    ranks(1, folder)
    record = folder / 'ranks' / 'run.json'
    record.write_text('{}')
    job = ranks(2, folder)
    job.expect_all_say(2, 'error', 'run.json')
    job.expect('it ends within 10 s', job.seconds < 10)


def storage_not_shared(folder):
    """A host that sees another folder under the same name."""
    folder.mkdir()
    isolated = 'unshare --mount sh -c \'mount -t tmpfs none "$1" && shift && exec "$@"\' sh "$@"'
    tried = Job('sh', '-c', isolated, 'sh', folder, 'true')
    if tried.status != 0:
        print(f'cannot mount: {tried.text.strip()}')
        sys.exit(SKIPPED)
    # By a shell on each rank, since Open MPI 5.0.7's prterun may crash where ranks start by different words.
    job = Job(*mpirun, '-n', 2, 'sh', '-c', f'{ON_RANK_1} exec {isolated}; fi; shift; exec "$@"', 'sh', folder, program, folder)
    job.expect_all_say(2, 'failed', 'rank 1 on ', 'does not see the run\'s folder', 'all hosts share')


def on_hosts(places, *arguments, **environment):
    return job_on_hosts(places, mpirun[0], program, *arguments, **environment)


TWO_HOSTS = 'alpha:2,beta:2'


def same_bits_on_hosts(folder, places, where):
    """On several hosts the bits are those of threads in rank order, and the same on every run in any other."""
    job = on_hosts(places, folder / 'rank_order', 'rank_order')
    result = job.expect_all_say(4, 'result', 'finished, 24 reports, 6 checkpoints')
    for rank, (local, size, node) in enumerate(where):
        job.expect(f'rank {rank} is placed', job.lines_with(f'rank {rank} of 4, local {local} of {size}, node {node}'))
    threads = Job(without, folder / 'threads', '', 4)
    threads.expect(f'threads say {result}', threads.lines_with('result') == [result])
    automatic = [on_hosts(places, folder / f'automatic_{i}').expect_all_say(4, 'result', 'finished') for i in range(2)]
    job.expect(f'two runs end alike, {automatic}', automatic[0] == automatic[1])


def two_hosts(folder):
    same_bits_on_hosts(folder, TWO_HOSTS, [(0, 2, 0), (1, 2, 0), (0, 2, 1), (1, 2, 1)])


def three_hosts(folder):
    same_bits_on_hosts(folder, 'alpha:2,beta:1,gamma:1', [(0, 2, 0), (1, 2, 0), (0, 1, 1), (0, 1, 2)])


def calls_differ(folder):
    """The last calls of two hosts are compared, too, with nothing behind them."""
    job = on_hosts(TWO_HOSTS, folder, 'differ')
    said = job.expect_all_say(4, 'failed')
    job.expect('it says why', 'which are not the same ones' in said or 'calls all_reduce(1 x int32, sum)' in said)


def port_in_use(folder):
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        port = other.getsockname()[1]
        job = Job('env', f'RAYTRAIN_PORT={port}', *mpirun, '-n', 2, program, folder)
        job.expect_all_say(2, 'error', 'listening for the ranks of the job: rank 0 on ',
                           f'listening at tcp:127.0.0.1:{port}: Address already in use')
        job.expect('nothing was created', not folder.exists())
    job = Job('env', f'RAYTRAIN_PORT={port}', *mpirun, '-n', 2, program, folder)
    job.expect_all_say(2, 'result', 'finished')


def interface(folder):
    job = on_hosts(TWO_HOSTS, folder / 'wire', '', RAYTRAIN_INTERFACE='wire')
    job.expect_all_say(4, 'result', 'finished')
    job = on_hosts(TWO_HOSTS, folder / 'net', '', RAYTRAIN_INTERFACE='10.77.0.0/24')
    job.expect_all_say(4, 'result', 'finished')
    job = on_hosts(TWO_HOSTS, folder / 'none', '', RAYTRAIN_INTERFACE='10.78.0.0/24')
    job.expect_all_say(4, 'error', "host alpha has no network '10.78.0.0/24'; it has wire (10.77.0.1)", '[invalid_config]')


def strangers(folder):
    """Foreign connections neither keep a job from its end nor find anybody once its ranks have met."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    have_met = threading.Event()
    met_before = []

    def knock():
        with socket.socket() as stranger:
            stranger.connect(('127.0.0.1', port))
            stranger.sendall(b'raytrain' + bytes(24))
            met_before.append(stranger.getsockname())

    def knock_on():
        while not have_met.wait(0.001):
            with contextlib.suppress(OSError):
                knock()

    knocking = threading.Thread(target=knock_on, daemon=True)
    knocking.start()

    def meet(_, said):
        have_met.set()
        knocking.join()
        knocked = len(met_before)
        for _ in range(30):
            with contextlib.suppress(ConnectionRefusedError):
                knock()
        heard.append(len(met_before) - knocked)
        os.kill(int(re.search(r'^rank 0 .* process (\d+)$', said, re.MULTILINE)[1]), signal.SIGTERM)

    heard = []
    job = WatchedJob('env', f'RAYTRAIN_PORT={port}', *mpirun, '-n', 2, program, folder, 'wait', steps=[('rank', 4, meet)])
    job.expect_all_say(2, 'result', 'aborted')
    job.expect('it ends by the status with which a scheduler starts it again', job.status == 75)
    job.expect(f'nobody listens once the ranks have met (of 30 this many were heard: {heard})', heard == [0])
    job.expect_nobody_left()


def no_thread(folder):
    """Where rank 0 cannot start its worker no other rank begins to wait for it."""
    job = ranks(3, folder, 'no_thread')
    job.expect_all_say(3, 'error', 'starting the worker of rank 0: the system gave no thread', 'ulimit -u')
    job.expect('no worker has begun', not job.lines_with('rank '))
    job.expect('it ends within 10 s', job.seconds < 10)
    job.expect_nobody_left()


CASES = {function.__name__: function for function in (
    same_on_threads, goes_on, begins_from_other_run, metadata, env, environment, prints, torchrun, own_store, throws, restarts, restarts_on_hosts, large_results, keeps_causes, killed, exits, exits_on_threads, exits_quickly, forks, few_open_files,
    returns_early, refused_by_backend, refused_by_constructor, refused_by_no_exception,
    hangs_on_another_rank, hangs_on_first_rank, hangs_on_threads, interrupted_twice, loses_first_rank, signalled, stopped_in_a_report,
    ended_by_mpirun, twice, leaves_before_second_fit, inside_another, comes_never, settings_differ, other_size,
    built_without_ranks, other_mpi, own_communicator, no_communicator, too_few_threads, other_run_in_folder, storage_not_shared,
    two_hosts, three_hosts, calls_differ, port_in_use, interface, strangers, no_thread,
    processes_in_a_job)}

scratch = pathlib.Path(tempfile.mkdtemp())
try:
    CASES[case](scratch / 'runs')
finally:
    shutil.rmtree(scratch)
