# SPDX-License-Identifier: Apache-2.0
"""Trainings whose workers change, in processes or in ranks of jobs that the program starts:

  elastic.py CASE PROGRAM processes|mpirun [MPIRUN]
"""
import os
import pathlib
import random
import re
import signal
import sys
import tempfile

from job import Job, WatchedJob, ask_for_ulfm

case, program, launch = sys.argv[1:4]
mpirun = (sys.argv[4:] or ['mpirun'])[0]
MOST = 4


def expect_good(job, sizes, failures=0):
    job.expect_all_say(1, 'each sample once')
    job.expect_all_say(1, 'result', 'finished, 3 reports', f'sizes {" ".join(map(str, sizes))}')
    job.expect('no sample is trained on twice', not job.lines_with('not each sample'))
    job.expect(f'{failures} attempts have failed', len([line for line in job.lines if 'has failed' in line]) == failures)
    for attempt, size in enumerate(sizes, 1):
        workers = job.lines_with('rank ')
        started = [line for line in workers if f'of {size} in attempt {attempt}, WORLD_SIZE {size}, process' in line]
        job.expect(f'{size} workers start in attempt {attempt}', len(started) == size)
    job.expect_nobody_left(10)


def train(folder, sizes, *more, fewest=1, most=MOST):
    return Job(program, folder, launch, fewest, most, ','.join(map(str, sizes)), *more)


def seeded():
    seed = int(os.environ.get('RAYTRAIN_TEST_SEED', random.SystemRandom().randrange(2**32)))
    print(f'RAYTRAIN_TEST_SEED={seed}')
    return random.Random(seed)


def first_size():
    """With mpirun as many as the hosts have slots for, of which nothing is known; in processes as many as there are cores."""
    return MOST if launch == 'mpirun' else min(MOST, len(os.sched_getaffinity(0)))


def changes(folder):
    """Any number follows any other one, and those that go on are the processes that were there."""
    source = seeded()
    sizes = [first_size()]
    for _ in range(3 if launch == 'mpirun' else 6):
        sizes.append(source.choice([size for size in range(1, MOST + 1) if size != sizes[-1]]))
    job = train(folder, sizes[1:])
    expect_good(job, sizes)
    job.expect_all_say(1, 'result', '0 warnings')
    of_rank_0 = set(re.findall(r'^rank 0 of .* process (\d+)$', job.text, re.MULTILINE))
    job.expect('rank 0 stays where it is', launch == 'mpirun' or len(of_rank_0) == 1)


def memory_copies(folder):
    """Whoever trains next, in as many processes as there are, goes on from what is kept in memory."""
    os.environ['RAYTRAIN_TEST_MEMORY_COPIES'] = '1'
    for train_so in (changes, killed, preempted):
        train_so(folder / train_so.__name__)


def signalled(folder):
    """By SIGUSR1 one more, by SIGUSR2 one fewer."""
    def send(number):
        return lambda process, _: process.send_signal(number)

    job = WatchedJob(program, folder, launch, 1, MOST, '-,-,-',
                     steps=[('rank 0 waits', 1, send(signal.SIGUSR2)), ('rank 0 waits', 1, send(signal.SIGUSR1)),
                            ('rank 0 waits', 1, send(signal.SIGUSR2))])
    first = first_size()
    expect_good(job, [first, first - 1, first, first - 1])


def killed(folder):
    """A worker that is lost while all of them end costs what came after the last checkpoint."""
    first = first_size()
    job = train(folder, [1 if first > 1 else 2], 'kill0')
    expect_good(job, [first, 1 if first > 1 else 2], failures=1)


def preempted(folder):
    """Processes are taken away, the first while their number changes: no sample is lost, and nothing has failed."""
    first = first_size()
    second = 1 if first > 1 else 2
    job = train(folder, [second, 'preempt0'], 'preempt0')
    expect_good(job, [first, second, second])
    of_rank_0 = re.findall(r'^rank 0 of .* process (\d+)$', job.text, re.MULTILINE)
    job.expect('rank 0 has another process each time', len(set(of_rank_0)) == 3)
    told = (folder / 'r/progress.jsonl').read_text().count('"preempted_attempt"')
    late = len(job.lines_with('when its worker had returned'))  # where the system was slow to tell of the first
    job.expect(f'progress.jsonl and a warning tell of two, not {told} and {late}', told + late == 2 and late < 2)


def expect_survivors(job, attempt, workers):
    """That it has these of the processes of the attempt before, in their order; none of them where that is no list."""
    def processes(number):
        lines = job.lines_with('rank ')
        found = [re.match(rf'rank (\d+) of \d+ in attempt {number}, .* process (\d+)$', line) for line in lines]
        return {int(it[1]): int(it[2]) for it in found if it}

    before, after = processes(attempt - 1), processes(attempt)
    if workers is None:
        holds = not set(before.values()) & set(after.values())
    else:
        holds = [after[rank] for rank in sorted(after)] == [before[worker] for worker in workers]
    job.expect(f'the processes of {workers} are those of attempt {attempt}: {before}, {after}', holds)


def lose(folder, sizes, survivors, *wanted, failures=1, fewest=1):
    """Ranks of a job in which MPI itself goes on without those that are lost: with these processes of each attempt before."""
    os.environ['RAYTRAIN_TEST_COMMAND'] = f'{mpirun} {ask_for_ulfm(mpirun)}'
    job = Job(program, folder, launch, fewest, MOST, ','.join(wanted))
    expect_good(job, sizes, failures)
    for attempt, workers in enumerate(survivors, 2):
        expect_survivors(job, attempt, workers)
    return job


def survivors_go_on(folder):
    lose(folder, [4, 3], [[0, 2, 3]], 'kill1')


def first_is_lost(folder):
    lose(folder, [4, 3], [[1, 2, 3]], 'kill0')


def lost_one_after_the_other(folder):
    lose(folder, [4, 3, 2], [[0, 2, 3], [1, 2]], 'kill1', 'kill0', failures=2)


def stopped_one_is_lost(folder):
    lose(folder, [4, 3], [[0, 2, 3]], 'stop1')


def survivors_restart(folder):
    """In the same processes, when one throws."""
    lose(folder, [4, 3, 3], [[0, 2, 3], [0, 1, 2]], 'kill1', 'throw0', failures=2)


def survivors_are_changed(folder):
    """By another job."""
    lose(folder, [4, 3, 2], [[0, 2, 3], None], 'kill1', '2')


def too_few_survive(folder):
    """So that another job is started, of as many as before."""
    lose(folder, [4, 3, 4], [[0, 2, 3], None], 'kill1', 'kill1', failures=2, fewest=3)


def ends_before_it_comes(folder):
    """Which no other rank waits for in MPI_Init."""
    os.environ['RAYTRAIN_TEST_COMMAND'] = f'{mpirun} {ask_for_ulfm(mpirun)}'
    for what in ('exit1', 'halt1'):
        job = Job(program, folder / what, launch, 1, MOST, what)
        job.expect_all_say(1, 'result', 'finished, 3 reports', 'sizes 4 4')
        job.expect('the next job is started soon', job.seconds < 20)
        job.expect_nobody_left(10)


def hangs_beside_a_loss(folder):
    """One rank, which ends the job: as many as before follow, in one other."""
    lose(folder, [4, 4], [None], 'hang0', failures=1)


def lost_by_hand(folder):
    """A rank of a job that mpirun has started, and no supervisor: all ranks end, with an error."""
    command = [mpirun, *ask_for_ulfm(mpirun).split(), '-n', '4', program, folder, 'ranks', '1', '4', 'kill1']
    job = Job('timeout', '-s', 'KILL', '60', *command)
    job.expect('nobody waits for it', job.seconds < 20)
    # prterun may end those that are still about to.
    job.expect('others say so', [line for line in job.lines if line.startswith('error') and 'rank 1' in line])
    job.expect_nobody_left(5)


def ends_the_run(wanted, event):
    """The same error for the third time in a row is taken for one that comes always."""
    failures = [it for it in wanted if it.startswith(('kill', 'throw'))]
    return failures[-2:] == [event, event]


def anything_happens(folder):
    """Ranks are lost or throw, and their number is changed, in any order."""
    source = seeded()
    sizes, survivors, wanted = [MOST], [], []
    for _ in range(5):
        size = sizes[-1]
        event = source.choice(['kill', 'throw', 'resize'] if size > 1 else ['resize'])
        rank = source.randrange(size)
        if ends_the_run(wanted, f'{event}{rank}'):
            event = 'resize'
        left = [worker for worker in range(size) if event == 'throw' or worker != rank]
        changed = source.choice([other for other in range(1, MOST + 1) if other != size])
        wanted.append(str(changed) if event == 'resize' else f'{event}{rank}')
        survivors.append(None if event == 'resize' else left)
        sizes.append(changed if event == 'resize' else len(left))
    print(wanted)
    lose(folder, sizes, survivors, *wanted, failures=len(wanted) - survivors.count(None))


def virtual_shards(folder):
    """Whatever happens to the workers, weights have the bits of one worker that nothing happens to."""
    os.environ['RAYTRAIN_TEST_VIRTUAL_SHARDS'] = '8'
    undisturbed = Job(program, folder / 'undisturbed', 'threads', 1, 1, '')
    expected = undisturbed.expect_all_say(1, 'weights')
    source = seeded()
    most = MOST if launch == 'mpirun' else 8
    size = min(most, MOST if launch == 'mpirun' else len(os.sched_getaffinity(0)))
    sizes, wanted = [size], []
    for _ in range(4 if launch == 'mpirun' else 7):
        event = source.choice(['kill', 'throw', 'preempt', 'resize', 'resize'])
        rank = source.randrange(size)
        if ends_the_run(wanted, f'{event}{rank}'):
            event = 'resize'
        if event == 'resize':
            size = source.choice([other for other in range(1, most + 1) if other != size])
        wanted.append(str(size) if event == 'resize' else f'{event}{rank}')
        sizes.append(size)
    print(wanted)
    job = train(folder, wanted, most=most)
    expect_good(job, sizes, failures=sum(it.startswith(('kill', 'throw')) for it in wanted))
    job.expect(f'the weights are those of one worker, {expected}', job.lines_with('weights') == [expected])


def lost_ones_are_replaced(folder):
    """After a while, and it is no failure."""
    lose(folder, [4, 3, 4], [[0, 2, 3], None], 'kill1', '-')


with tempfile.TemporaryDirectory(prefix='raytrain-elastic-', ignore_cleanup_errors=True) as path:
    {function.__name__: function for function in (
        changes, signalled, killed, preempted, memory_copies, survivors_go_on, first_is_lost, lost_one_after_the_other, stopped_one_is_lost, survivors_restart,
        survivors_are_changed, too_few_survive, ends_before_it_comes, hangs_beside_a_loss,
        lost_by_hand, anything_happens, lost_ones_are_replaced, virtual_shards)}[case](pathlib.Path(path))
