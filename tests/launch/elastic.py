# SPDX-License-Identifier: Apache-2.0
"""Trainings whose workers change, in processes or in ranks of jobs that the program starts:

  elastic.py CASE PROGRAM processes|mpirun
"""
import os
import pathlib
import random
import re
import signal
import sys
import tempfile

from job import Job, WatchedJob

case, program, launch = sys.argv[1:]
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


def first_size():
    """With mpirun as many as the hosts have slots for, of which nothing is known; in processes as many as there are cores."""
    return MOST if launch == 'mpirun' else min(MOST, len(os.sched_getaffinity(0)))


def changes(folder):
    """Any number follows any other one, and those that go on are the processes that were there."""
    seed = int(os.environ.get('RAYTRAIN_TEST_SEED', random.SystemRandom().randrange(2**32)))
    print(f'RAYTRAIN_TEST_SEED={seed}')
    source = random.Random(seed)
    sizes = [first_size()]
    for _ in range(3 if launch == 'mpirun' else 6):
        sizes.append(source.choice([size for size in range(1, MOST + 1) if size != sizes[-1]]))
    job = train(folder, sizes[1:])
    expect_good(job, sizes)
    job.expect_all_say(1, 'result', '0 warnings')
    of_rank_0 = set(re.findall(r'^rank 0 of .* process (\d+)$', job.text, re.MULTILINE))
    job.expect('rank 0 stays where it is', launch == 'mpirun' or len(of_rank_0) == 1)


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
    job = train(folder, [1 if first > 1 else 2], 'kill')
    expect_good(job, [first, 1 if first > 1 else 2], failures=1)


with tempfile.TemporaryDirectory(prefix='raytrain-elastic-', ignore_cleanup_errors=True) as path:
    {function.__name__: function for function in (changes, signalled, killed)}[case](pathlib.Path(path))
