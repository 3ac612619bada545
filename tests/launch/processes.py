# SPDX-License-Identifier: Apache-2.0
"""Trains in processes of this host, or in ranks of jobs that the program starts, and looks at what the program and its
workers say:

  processes.py CASE PROGRAM [mpirun]
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import sys
import tempfile

from job import SKIPPED, Job, WatchedJob, job_on_hosts

case, program, *launch = sys.argv[1:]
is_job = launch == ['mpirun']
os.environ['RAYTRAIN_TEST_LAUNCH'] = 'mpirun' if is_job else 'processes'


def train(folder, what='', workers=3, rank=1, max_failures=0, **options):
    return Job(program, folder, what, workers, rank, max_failures, **options)


def on_threads(folder, workers):
    environment = {name: value for name, value in os.environ.items() if name != 'RAYTRAIN_TEST_LAUNCH'}
    return Job(program, folder / 'threads', '', workers, env=environment).lines_with('result')[0]


def sum_of(line):
    return re.search(r'sum \S+', line)[0]


def processes_of(job, rank):
    """Those that have trained as this rank, in their order."""
    return re.findall(rf'^rank {rank} of .* process (\d+)$', job.text, re.MULTILINE)


def same_on_threads(folder):
    """The parameters are bit for bit those of as many threads, and main goes on in one process alone."""
    for workers in (1, 2, 4):
        job = train(folder / str(workers), workers=workers)
        result = job.expect_all_say(1, 'result', 'finished', '0 warnings', '1 attempts')
        threads = on_threads(folder / f'as {workers}', workers)
        job.expect(f'threads say {threads}', result == threads)
        for rank in range(workers):
            job.expect(f'rank {rank} is placed', job.lines_with(f'rank {rank} of {workers}, local {rank} of {workers}, node 0'))
        job.expect('each has a process', len({processes_of(job, rank)[0] for rank in range(workers)}) == workers)
        job.expect('callbacks are called in one process', len(job.lines_with('callback')) == 1)
        job.expect('it ends well', job.status == 0)
        job.expect_nobody_left()


def goes_on(folder):
    train(folder, 'throw').expect_all_say(1, 'failed', 'rank 1 on ', 'as planned', 'start it again to go on from', 'errored')
    train(folder).expect_all_say(1, 'result', 'finished', 'nothing left 0')
    train(folder).expect_all_say(1, 'result', 'finished', 'nothing left 1')


def begins_from_other_run(folder):
    train(folder)
    job = train(folder, 'begin_there')
    job.expect_all_say(3, 'begins after epoch 3, with epoch 0')
    job.expect_all_say(1, 'result', 'finished', '6 reports, 2 checkpoints', '0 warnings')
    again = train(folder, 'begin_there')
    again.expect_all_say(1, 'result', 'finished', 'nothing left 1')
    again.expect('it goes on from its own', not again.lines_with('begins after'))
    shutil.rmtree(folder / 'tuned')
    shutil.rmtree(folder / 'ranks')
    job = train(folder, 'begin_there')
    job.expect_all_say(1, 'error', 'RunConfig::resume_from_checkpoint', 'checkpoint_000004')
    job.expect('nobody trains', not job.lines_with('rank '))


def metadata(folder):
    """All have what the program has that started them, though each process names another."""
    job = train(folder, 'metadata')
    number = job.lines_with('callback')[0].split()[-1]
    job.expect_all_say(3, f'metadata {number}')
    job.expect_all_say(1, f'kept metadata {number}, in {number}, by {number}')


def env(folder):
    """Workers have the variables before their libraries are loaded, and whoever lists the processes does not see them."""
    job = train(folder, 'env')
    job.expect_all_say(3, 'env fast, it\'s $HOME, "a" \\ `b`, /of/workers, hidden')
    job.expect_all_say(1, 'main keeps none')
    job.expect('nothing is left in the folder of the run', not list((folder / 'ranks').glob('.ranks-*')))


def environment(folder):
    job = train(folder, 'environment')
    job.expect('each has its own', sorted(job.lines_with('environment')) == [f'environment {rank} 3 {rank} 3' for rank in range(3)])


def prints(folder):
    """What rank 0 prints comes out in the program that was started, in order."""
    job = train(folder, 'print')
    job.expect('rank 0 prints, in order', job.lines_with('printed') == [f'printed in epoch {epoch} by rank 0' for epoch in range(6)])
    job.expect_all_say(1, 'result', 'finished', '0 warnings')


def unflushed(folder):
    """What a worker has left in the buffers of cout and of a file comes out at its end."""
    job = train(folder, 'unflushed')
    job.expect_all_say(3, 'kept in the buffer of cout')
    for rank in range(3):
        written = (folder / f'unflushed {rank}').read_text()
        job.expect(f'the file of rank {rank} has it all: {written!r}', written == 'kept in the buffer of a file\n')
    job.expect_all_say(1, 'result', 'finished', '0 warnings')


def replaces(folder, what, *parts):
    """A lost process costs a worker: the others go on in theirs, to the bits of an undisturbed run."""
    whole = on_threads(folder, 3)
    job = train(folder, what, max_failures=1)
    result = job.expect_all_say(1, 'result', 'finished', '18 reports, 6 checkpoints', '2 attempts')
    job.expect(f'it reaches {sum_of(whole)}', sum_of(result) == sum_of(whole))
    for rank in range(3):
        job.expect(f'rank {rank} has trained twice', len(processes_of(job, rank)) == 2)
        is_replaced = parts and (is_job or rank == 1)  # a job has all its processes or none
        job.expect(f'rank {rank} has another process where one was lost', len(set(processes_of(job, rank))) == (2 if is_replaced else 1))
    job.expect('it ends well', job.status == 0)
    job.expect_nobody_left()
    lost = train(folder / 'lost', what).expect_all_say(1, 'failed', 'rank 1 on ', *parts)
    log = (folder / 'ranks/progress.jsonl').read_text()
    for part in parts:
        job.expect(f'progress.jsonl says "{part}", as it does: {lost}', part in log)


def crashes_when_finished(folder):
    """Who crashes when a callback has said that the run is finished has not ended as it was told to."""
    job = train(folder, 'crash_when_finished')
    job.expect_all_say(1, 'failed', 'rank 1 on ', 'errored')
    job.expect('it is not finished', not job.lines_with('result'))


def loses_no_state(folder):
    """A process that is killed, and has no part of the state, costs nothing of what was reported, although that was not written yet."""
    whole = on_threads(folder, 3)
    job = WatchedJob(program, folder, 'wait_to_be_killed', 3, 1, 1, steps=[
        ('warning: rank 1 waits', 1, lambda _, said: os.kill(int(re.search(r'^rank 1 .* process (\d+)$', said, re.MULTILINE)[1]), signal.SIGKILL))])
    result = job.expect_all_say(1, 'result', 'finished', '18 reports, 2 checkpoints', '2 attempts')
    job.expect(f'it reaches {sum_of(whole)}', sum_of(result) == sum_of(whole))
    restart = [line for line in (folder / 'ranks/progress.jsonl').read_text().splitlines() if '"failed_attempt"' in line]
    job.expect('nothing is lost', len(restart) == 1 and '"lost_reports":0' in restart[0].replace(' ', ''))
    job.expect_nobody_left()


def hangs(folder):
    """A worker that does not return when it is told to loses its process, not the run."""
    job = train(folder, 'hang', max_failures=1)
    job.expect_all_say(1, 'result', 'finished', '2 attempts')
    job.expect('it has another process', len(set(processes_of(job, 1))) == 2)
    job.expect_nobody_left()


def computes_for_ever(folder):
    """FailureConfig::hang_timeout finds it."""
    job = train(folder, 'endless', max_failures=1)
    job.expect_all_say(1, 'result', 'finished', '2 attempts')
    job.expect('it has another process', len(set(processes_of(job, 1))) == 2)
    log = (folder / 'ranks/progress.jsonl').read_text()
    job.expect('progress.jsonl says why', 'it has shown no sign of life for 1000 ms; it ' in log)
    job.expect('its process is ended without waiting for it to return', 'did not return although it was told to' not in log)
    job.expect_nobody_left()


def family_of(job):
    family = re.findall(r'^rank 1 has started process (\d+)$', job.text, re.MULTILINE)
    job.expect('a worker has started two', len(family) == 2)
    return [int(pid) for pid in family]


def takes_its_family_along(folder):
    """What a lost process has started ends with it, also what has left its group and its parent."""
    for what, ending in (('kill', 'finished'), ('exit', 'finished'), ('endless', 'finished'), ('kill', 'errored')):
        job = train(folder / what / ending, what + '_family', max_failures=1 if ending == 'finished' else 0)
        job.expect_all_say(1, 'result' if ending == 'finished' else 'failed', ending)
        family_of(job)
        job.expect_nobody_left()


def leaves_its_family(folder):
    """What a process has started that ends in order may go on."""
    job = train(folder, 'keep_family')
    job.expect_all_say(1, 'result', 'finished')
    for pid in family_of(job):
        os.kill(pid, signal.SIGKILL)


def starts_slowly(folder):
    """Who waits for a process that is still being started does not hang, whatever FailureConfig::hang_timeout."""
    job = train(folder, 'slow_start', max_failures=1)
    job.expect_all_say(1, 'result', 'finished', '2 attempts')


def crashes_each_time(folder):
    """The same end at the same step ends a run that would start workers again for ever."""
    job = train(folder, 'abort_always', max_failures=-1)
    job.expect_all_say(1, 'failed', 'its process is lost' if is_job else 'its process was ended by signal 6 (Aborted)', '3 attempts')
    job.expect('it says why', 'the same error has come 3 times in a row' in job.text)


def stopped(folder):
    """A process that stands still is noticed, and costs a worker."""
    def stop(_, said):
        os.kill(int(re.findall(r'^rank 1 .* process (\d+)$', said, re.MULTILINE)[-1]), signal.SIGSTOP)

    job = WatchedJob(program, folder, 'wait_once', 3, 1, 1, steps=[('rank 1 waits', 1, stop)])
    job.expect_all_say(1, 'result', 'finished', '2 attempts')
    job.expect('it is noticed soon', job.seconds_since_step < 5)
    job.expect('it has another process', len(set(processes_of(job, 1))) == 2)
    why = 'stands still, since a signal (SIGSTOP) has stopped it' if is_job else 'was killed, since a signal (SIGSTOP) had stopped it'
    job.expect('progress.jsonl says why', why in (folder / 'ranks/progress.jsonl').read_text())
    job.expect_nobody_left()


def stops_at_birth(folder):
    """Between the fork and the start of the program."""
    job = train(folder, 'stop_at_birth', max_failures=1)
    job.expect_all_say(1, 'result', 'finished', '18 reports, 6 checkpoints', '2 attempts')
    job.expect('it is noticed soon', job.seconds < 8)
    job.expect_nobody_left()


def stops_at_end(folder):
    """A process that stands still when nothing is left for it to do is not waited for."""
    job = train(folder, 'stop_at_end')
    job.expect_all_say(1, 'result', 'finished', '18 reports, 6 checkpoints', '1 attempts')
    job.expect('it ends soon', job.seconds < 8)
    job.expect_nobody_left()


def refuses(folder, what, *parts):
    job = train(folder, what)
    job.expect_all_say(1, 'failed', *parts)
    job.expect('it fails', job.status == 1)
    job.expect_nobody_left()


def other_fit_first(folder):
    job = train(folder, 'threads_first')
    job.expect('it names the way out', 'call fit() here only where is_worker_process() is false' in job.text)
    job.expect('the process says it itself', 'raytrain: a worker process cannot join: ' in job.text)
    why = 'its process has not come to fit()' if is_job else 'exited with status 2, before it had begun to train in this attempt'
    job.expect_all_say(1, 'failed', 'rank 1', why)


def twice(folder):
    """The processes of the second call come past the first one, which gives there what it has given."""
    job = train(folder, 'twice')
    first = job.expect_all_say(4, 'result', 'finished')
    job.expect_all_say(1, 'again ' + first.replace('nothing left 0', 'nothing left 1'))
    for rank in range(3):
        job.expect(f'rank {rank} has trained twice', len(set(processes_of(job, rank))) == 2)
    job.expect_nobody_left()


def interrupted(folder):
    job = WatchedJob(program, folder, 'wait', 3, steps=[('rank 1 waits', 1, lambda process, _: process.send_signal(signal.SIGINT))])
    job.expect_all_say(1, 'result', 'aborted')
    job.expect('it ends with status 75', job.status == 75)
    job.expect_nobody_left()
    train(folder, 'wait').expect_all_say(1, 'result', 'finished')


def never_comes(folder):
    """ScalingConfig::start_timeout ends the wait for a worker that does not come to fit()."""
    job = train(folder, 'never_comes_late')
    job.expect_all_say(1, 'failed', 'rank 1', 'it has not begun to train within 1000 ms', 'ScalingConfig::start_timeout')
    job.expect_nobody_left()


def stopped_before_launch(folder):
    job = train(folder, 'stop_at_once')
    job.expect_all_say(1, 'result', 'aborted', '0 reports')
    job.expect('nobody trains', not job.lines_with('rank '))


def no_thread(folder):
    """A process that cannot be watched does not run."""
    job = train(folder, 'no_thread')
    what = 'the thread of the controller' if is_job else 'a worker process: a thread that waits for its end'
    job.expect_all_say(1, 'error', 'starting ' + what, 'ulimit -u')
    job.expect('nobody trains', not job.lines_with('rank '))


def interrupted_twice(folder):
    """Although every worker computes."""
    def interrupt(process, _):
        process.send_signal(signal.SIGINT)
    job = WatchedJob(program, folder, 'compute', 3, steps=[('rank', 6, interrupt), ('warning: a stop was requested', 1, interrupt)])
    job.expect_all_say(1, 'result', 'aborted')
    job.expect('it ends soon', job.seconds_since_step < 5)
    job.expect('it ends with status 75', job.status == 75)
    job.expect_nobody_left()


def interrupted_before_fit(folder):
    """Nobody waits for a worker that has not come."""
    job = WatchedJob(program, folder, 'never_comes', 3,
                     steps=[('rank 1 waits in main', 1, lambda process, _: process.send_signal(signal.SIGINT))])
    job.expect_all_say(1, 'result', 'aborted')
    job.expect('it ends soon', job.seconds_since_step < 5)
    job.expect_nobody_left()


def supervisor_killed(folder):
    """No process is left behind by a program that is killed, and the next one goes on."""
    job = WatchedJob(program, folder, 'compute', 3, steps=[('rank', 6, lambda process, _: process.kill())])
    job.expect('it is killed', job.status == -signal.SIGKILL)
    job.expect('what the ranks have read is not left in the folder of the run', not list((folder / 'ranks').glob('.ranks-*')))
    job.expect_nobody_left(10 if is_job else 0)
    train(folder).expect_all_say(1, 'result', 'finished', '1 attempts')


def loses_little(folder):
    """Workers do not run away from the commits of their checkpoints, with which they would be lost."""
    job = WatchedJob(program, folder, 'signal', 3, steps=[('900 reports', 1, lambda process, _: process.kill())])
    job.expect('it is killed', job.status == -signal.SIGKILL)
    lines = (folder / 'ranks/progress.jsonl').read_text().splitlines()
    reported = max(int(found[1]) for line in lines if (found := re.search(r'"training_iteration": ?(\d+)', line)))
    committed = max(int(path.name[-6:]) for path in (folder / 'ranks/checkpoints').glob('checkpoint_??????'))
    job.expect(f'of {reported} steps {committed} are committed', reported >= 300 and reported - committed <= 9)


def end_launcher(folder, number):
    """mpirun itself, by a signal: a failure, after which another job goes on."""
    def end(_, said):
        rank = re.search(r'^rank 1 .* process (\d+)$', said, re.MULTILINE)[1]
        os.kill(int(pathlib.Path(f'/proc/{rank}/stat').read_text().rpartition(') ')[2].split()[1]), number)

    job = WatchedJob(program, folder, 'wait_once', 3, 1, 1, steps=[('rank 1 waits', 1, end)])
    result = job.expect_all_say(1, 'result', 'finished', '2 attempts')
    job.expect('it is noticed soon', job.seconds_since_step < 5)
    whole = on_threads(folder, 3)
    job.expect(f'it reaches {sum_of(whole)}', sum_of(result) == sum_of(whole))
    job.expect_nobody_left()
    log = (folder / 'ranks/progress.jsonl').read_text()
    job.expect('it is a failure', '"failed_attempt": 1' in log)
    return job, log


def launcher_killed(folder):
    job, log = end_launcher(folder, signal.SIGKILL)
    job.expect('progress.jsonl says why', 'mpirun exited with status 137' in log)


def launcher_terminated(folder):
    """It sends all ranks the signal, of which none is to be taken away."""
    job, _ = end_launcher(folder, signal.SIGTERM)
    job.expect('no rank is taken for one that is taken away', not job.lines_with('warning: rank'))


def terminated_together(folder):
    """As an init system ends a service: it signals each of its processes."""
    def terminate(process, said):
        everybody = {process.pid, *map(int, re.findall(r'^rank .* process (\d+)$', said, re.MULTILINE))}
        while more := {child for pid in everybody for child in children_of(pid)} - everybody:
            everybody |= more
        for pid in everybody:
            os.kill(pid, signal.SIGTERM)

    job = WatchedJob(program, folder, 'wait', 3, steps=[('rank', 6, terminate)])
    job.expect_all_say(1, 'result', 'aborted')
    job.expect('it ends with status 75', job.status == 75)
    job.expect_nobody_left()


def send(number, *ranks):
    """A step that sends the processes of these ranks a signal."""
    def act(_, said):
        for rank in ranks:
            try:
                os.kill(int(re.findall(rf'^rank {rank} .* process (\d+)$', said, re.MULTILINE)[-1]), number)
            except ProcessLookupError:
                pass  # it has ended meanwhile
    return act


NOTICE = 'warning: rank 1: its process was sent a SIGTERM'


def expect_one_preemption(folder, job, ranks='rank 1 on'):
    """To the bits of an undisturbed run, and by no failure."""
    result = job.expect_all_say(1, 'result', 'finished', '18 reports, 6 checkpoints', '2 attempts')
    whole = on_threads(folder, 3)
    job.expect(f'it reaches {sum_of(whole)}', sum_of(result) == sum_of(whole))
    job.expect('it ends well', job.status == 0)
    log = (folder / 'ranks/progress.jsonl').read_text()
    job.expect(f'progress.jsonl names {ranks}', f'"preempted_attempt": 1, "preempted": "{ranks}' in log and 'failed_attempt' not in log)
    job.expect_nobody_left()


def preempted(folder):
    """A SIGTERM to a worker's process alone: it ends in order, and another one takes its place."""
    job = WatchedJob(program, folder, 'wait_once', 3, steps=[('rank 1 waits', 1, send(signal.SIGTERM, 1))])
    expect_one_preemption(folder, job)
    for rank in range(3):
        is_replaced = is_job or rank == 1
        job.expect(f'rank {rank} has another process where one is taken away', len(set(processes_of(job, rank))) == (2 if is_replaced else 1))


def preempted_in_a_step(folder):
    """What kills it before it has ended in order is the same pre-emption."""
    steps = [('rank 1 computes', 1, send(signal.SIGTERM, 1)), (NOTICE, 1, send(signal.SIGKILL, 1))]
    job = WatchedJob(program, folder, 'compute_alone', 3, steps=steps)
    expect_one_preemption(folder, job)
    job.expect('the others are not waited for', job.seconds_since_step < 5)


def preempted_all(folder):
    """All at once, twice each."""
    twice = send(signal.SIGTERM, 0, 1, 2, 0, 1, 2)
    job = WatchedJob(program, folder, 'wait_once', 3, steps=[('rank', 6, twice)])
    expect_one_preemption(folder, job, 'rank')


def preempted_too_often(folder):
    os.environ['RAYTRAIN_TEST_MAX_PREEMPTIONS'] = '0'
    steps = [('rank 1 waits', 1, send(signal.SIGTERM, 1))]
    job = WatchedJob(program, folder, 'wait_once', 3, 1, 0, steps=steps)
    job.expect_all_say(1, 'failed', 'rank 1 on ', 'its process was sent a SIGTERM, and FailureConfig::max_preemptions is 0', '1 attempts', 'errored')
    job.expect('it fails', job.status == 1)
    job.expect_nobody_left()
    train(folder, 'wait_once').expect_all_say(1, 'result', 'finished')
    job = WatchedJob(program, folder / 'again', 'wait_once', 3, 1, 1, steps=steps)
    job.expect_all_say(1, 'result', 'finished', '2 attempts')
    job.expect('progress.jsonl says so', 'and FailureConfig::max_preemptions is 0' in (folder / 'again/ranks/progress.jsonl').read_text())


def preempted_with_all(folder):
    """A SIGTERM to the program, too, is a stop, whichever comes first."""
    os.environ['RAYTRAIN_TEST_MAX_PREEMPTIONS'] = '0'
    to_workers, to_program = send(signal.SIGTERM, 0, 1, 2), lambda process, _: process.send_signal(signal.SIGTERM)
    for order, steps in {'workers': [('rank', 6, to_workers), ('warning: rank', 1, to_program)],
                         'program': [('rank', 6, to_program), ('warning: a stop was requested', 1, to_workers)]}.items():
        job = WatchedJob(program, folder / order, 'wait', 3, steps=steps)
        job.expect_all_say(1, 'result', 'aborted', '1 attempts')
        job.expect('it ends with status 75', job.status == 75)
        job.expect('no pre-emption is told of', 'preempted' not in (folder / order / 'ranks/progress.jsonl').read_text())
        job.expect_nobody_left()


def preempted_by_slurm(folder):
    """It signals all tasks of a step, and not the program."""
    def signal_step(*_):
        steps = Job('squeue', '--steps', '--noheader', '--format=%i').text.split()
        sent = Job('scancel', '--signal=TERM', next(step for step in steps if step.endswith('.0')))
        sent.expect('the step is signalled', sent.status == 0)

    job = WatchedJob(program, folder, 'wait_once', 3, steps=[('rank', 6, signal_step)])
    expect_one_preemption(folder, job, 'rank')


def preempted_before_fit(folder):
    """A process that has not come to fit() ends by the signal."""
    waits = 'rank 1 waits in main'
    job = WatchedJob(program, folder, 'never_comes', 3, steps=[(waits, 1, send(signal.SIGTERM, 1)), (waits, 1, lambda process, _: process.send_signal(signal.SIGINT))])
    job.expect_all_say(1, 'result', 'aborted', '2 attempts')
    job.expect('progress.jsonl says why', '"preempted_attempt": 1, "preempted": "rank 1' in (folder / 'ranks/progress.jsonl').read_text())
    job.expect_nobody_left()


def children_of(pid):
    return map(int, pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split())


def program_replaced(folder):
    """While it runs another file takes the program's place: the next job runs that one."""
    copy = folder / 'program'
    shutil.copy(program, copy)

    def replace_and_kill(_, said):
        copy.unlink()
        shutil.copy(program, copy)
        os.kill(int(re.search(r'^rank 1 .* process (\d+)$', said, re.MULTILINE)[1]), signal.SIGKILL)

    job = WatchedJob(copy, folder, 'wait_once', 3, 1, 1, steps=[('rank 1 waits', 1, replace_and_kill)])
    job.expect_all_say(1, 'result', 'finished', '2 attempts')


def colon(folder):
    job = train(folder, ':')
    job.expect_all_say(1, 'error', "an argument of this program is ':', by which mpirun would begin the next program of its job")


def alone_in_mpirun(folder):
    job = Job('mpirun', '-n', 1, program, folder)
    job.expect_all_say(1, 'error', 'Launch::mpirun is asked for in a process that is a rank of an MPI job itself')


def port_in_use(folder):
    """Nothing of the user's is touched."""
    (folder / '.results').write_text('mine')
    with socket.socket() as taken:
        taken.bind(('0.0.0.0', 0))
        taken.listen()
        os.environ['RAYTRAIN_PORT'] = str(taken.getsockname()[1])
        job = Job(pathlib.Path(program).absolute(), folder, cwd=folder)
    job.expect_all_say(1, 'error', 'Address already in use')
    job.expect('it leaves the file of another', (folder / '.results').read_text() == 'mine')
    job.expect('nothing is left in the folder of the run', not list((folder / 'ranks').glob('.ranks-*')))


def no_launcher(folder):
    os.environ['RAYTRAIN_TEST_COMMAND'] = 'no_such_mpirun --with options'
    job = train(folder)
    job.expect_all_say(1, 'failed', 'no_such_mpirun exited with status 127, as where it or this program is not there')
    job.expect('it fails', job.status == 1)


def refused_by_launcher(folder):
    os.environ['RAYTRAIN_TEST_COMMAND'] = 'mpirun --no-such-option'
    train(folder).expect_all_say(1, 'failed', 'rank 0', 'its process has not come to fit(): mpirun exited with status ')


def env_on_hosts(folder):
    """Also on a host that mpirun reaches through a daemon."""
    job = job_on_hosts('alpha:1,beta:1', shutil.which('mpirun'), program, folder, 'env', 2)
    job.expect_all_say(2, 'env fast, it\'s $HOME, "a" \\ `b`, /of/workers, hidden')
    job.expect('they are on two hosts', job.lines_with('rank 1 of 2, local 0 of 1, node 1'))


def needs_open_mpi():
    if 'Open MPI' not in Job('mpirun', '--version').text:
        print('needs the mpirun of Open MPI')
        sys.exit(SKIPPED)


def expect_placed(job, size, nodes):
    for rank, node in enumerate(nodes):
        job.expect(f'rank {rank} is on host {node}', re.search(rf'^rank {rank} of {size}, local . of ., node {node},', job.text, re.MULTILINE))


def placement(folder):
    """Open MPI's mpirun fills one host before the next, or takes them in turn."""
    needs_open_mpi()
    for what, nodes in {'pack': [0, 0, 0], 'spread': [0, 1, 0]}.items():
        job = job_on_hosts('alpha:3,beta:3', shutil.which('mpirun'), program, folder / what, what, 3)
        expect_placed(job, 3, nodes)
        job.expect_all_say(1, 'result', 'finished')


def placement_of_slurm(folder):
    """In an allocation srun does so, too."""
    os.environ['RAYTRAIN_TEST_COMMAND'] = 'srun --mpi=pmix'
    for what, nodes in {'pack': [0, 0, 0], 'spread': [0, 1, 0]}.items():
        job = Job('salloc', '-N2', '-n8', program, folder / what, what, 3)
        expect_placed(job, 3, nodes)
        job.expect_all_say(1, 'result', 'finished')
    train(folder / 'queue', 'spread').expect_all_say(
        1, 'error', 'ScalingConfig::placement_strategy: Slurm itself chooses the hosts of a job', 'by salloc or sbatch')


def placement_refused(folder):
    """Where raytrain cannot see to it nothing starts."""
    needs_open_mpi()
    for command, *parts in (('env mpirun', "'env' is neither srun nor Open MPI's mpirun", '-ppn 1'),
                            (f'{folder}/mpirun', "mpirun' is neither srun nor Open MPI's mpirun"),
                            ('mpirun --map-by slot:PE=2', "ScalingConfig::job_command places the ranks already, by '--map-by'"),
                            ('srun -mblock', "places the ranks already, by '-mblock'")):
        os.environ['RAYTRAIN_TEST_COMMAND'] = command
        train(folder, 'spread').expect_all_say(1, 'error', 'ScalingConfig::placement_strategy: ', *parts)
    one_host = {**os.environ, 'RAYTRAIN_TEST_LAUNCH': 'processes'}
    train(folder, 'spread', env=one_host).expect_all_say(1, 'error', 'all workers are on this host', 'write Launch::mpirun')
    job = Job('mpirun', '-n', 2, program, folder, 'pack', env={name: value for name, value in os.environ.items() if name != 'RAYTRAIN_TEST_LAUNCH'})
    job.expect_all_say(2, 'error', 'what has started this job has placed its ranks', '--map-by node', '--distribution=cyclic')
    job.expect('nothing was created', not (folder / 'ranks').exists())
    train(folder / 'packed', 'pack', env=one_host).expect_all_say(1, 'result', 'finished')


def without_ranks(folder):
    job = Job(pathlib.Path(program).parent / 'program_without_ranks', folder)
    job.expect_all_say(1, 'error', 'the program was built without ranks', '#include <raytrain/launch/ranks.hpp>')


def inside_mpirun(folder):
    job = Job('mpirun', '-n', 2, program, folder)
    lines = job.lines_with('error')
    job.expect('each is refused', len(lines) == 2)
    job.expect('it says why', 'Launch::mpirun is asked for in one of 2 processes' in lines[0])
    job.expect('nobody trains', not job.lines_with('rank '))


def few_open_files(folder):
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    job = train(folder, workers=30)
    job.expect('it says what it lacks', 'raise the limit on' in job.text and 'Too many open files' in job.text)
    job.expect('it fails', job.status in (1, 2))


# What the program is told to do, and what the end of the process then is called; of an exception nothing, since none ends.
REPLACED = {
    'thrown': ('throw',),
    'killed': ('kill', 'its process ', 'was ended by signal 9 (Killed)'),
    'aborts': ('abort', 'its process ', 'was ended by signal 6 (Aborted)'),
    'exits': ('_exit', 'its process ', 'exited with status 0'),
    'exits_in_order': ('exit', 'its process ', 'exited with status 75'),
}
REFUSED = {
    'exits_early': ('exits_early', 'rank 1 on ', 'exited with status 3, before it had begun to train in this attempt'),
    'crashes_early': ('crashes_early', 'rank 1 on ', 'was ended by signal 6 (Aborted), before it had begun to train in this attempt'),
    'settings_differ': ('seed', 'RunConfig::seed is 7, and in the program that has started it it is 0', 'let main come to the same fit()'),
}

if is_job:
    for crash in ('killed', 'aborts', 'exits', 'exits_in_order'):
        REPLACED[crash] = (REPLACED[crash][0], 'its process is lost: it was killed, crashed or exited')
    for early in ('exits_early', 'crashes_early'):
        REFUSED[early] = (early, 'rank 1', 'its process has not come to fit(): mpirun exited with status ')
    REFUSED['settings_differ'] = ('seed', 'RunConfig::seed is 7, and in the program that has started the job it is 0')

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
folder = pathlib.Path(tempfile.mkdtemp(prefix='raytrain-processes-'))
try:
    if case in REPLACED:
        replaces(folder, *REPLACED[case])
    elif case in REFUSED:
        refuses(folder, *REFUSED[case])
    else:
        globals()[case](folder)
finally:
    shutil.rmtree(folder)
