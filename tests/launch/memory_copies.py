# SPDX-License-Identifier: Apache-2.0
"""Loses processes of a training that keeps its newest checkpoint in memory, and looks at what is read from the store:

  memory_copies.py CASE PROGRAM [mpirun [MPIRUN]]
"""
import json
import os
import pathlib
import re
import sys
import tempfile

from job import Job, ask_for_ulfm

case, program, *launch = sys.argv[1:]
if launch:
    os.environ['RAYTRAIN_TEST_MPIRUN'] = '1'


def reach_the_same_bits(folder, workers, copies, *lost, attempts=2):
    whole = Job(program, folder / 'whole', workers, copies).expect_all_say(1, 'result', 'finished, 1 attempts')
    job = Job(program, folder / 'lost', workers, copies, *lost)
    result = job.expect_all_say(1, 'result', f'finished, {attempts} attempts')
    job.expect(f'it reaches the bits of "{whole}"', whole.split(',')[-1] == result.split(',')[-1])
    job.expect_nobody_left(10)
    return job


def readers_of(job):
    """Who has read the state, and files of ranks' own, in the second attempt."""
    processes = {pid: f'rank {rank}' for rank, pid in re.findall(r'^rank (\d+) of \d+ in attempt 2, process (\d+)$', job.text, re.MULTILINE)}
    processes[re.search(r'^supervisor is process (\d+)$', job.text, re.MULTILINE)[1]] = 'supervisor'
    readers = sorted(processes[pid] for pid in re.findall(r'^reads values in process (\d+)$', job.text, re.MULTILINE))
    own = sorted(processes[pid] for pid in re.findall(r'^reads rank_\d+/own in process (\d+)$', job.text, re.MULTILINE))
    return readers, own


def train(folder, workers, copies, *lost):
    """The same bits as without a loss, and who has read what in the second attempt."""
    job = reach_the_same_bits(folder, workers, copies, *lost)
    return job, *readers_of(job)


def first_is_lost(folder):
    """The process in its place has the state from its neighbour, and the others, which keep none, from there as well."""
    job, readers, own = train(folder, 4, 1, '0')
    job.expect('nobody reads the state from the store', readers == [])
    job.expect('the new process reads what was its own', own == ['rank 0'])


def nobody_is_lost(folder):
    """After an exception all go on in their processes, and one that keeps no copy has it from another one."""
    job, readers, own = train(folder, 3, 1, '1', 'throw')
    job.expect(f'nobody reads anything from the store ({readers}, {own})', readers == own == [])


def nothing_is_kept(folder):
    """What the other cases do without."""
    job, readers, own = train(folder, 2, 0, '0')
    job.expect(f'all read it ({readers}, {own})', readers == ['rank 0', 'rank 1', 'supervisor'])


def neighbour_is_lost(folder):
    job, readers, own = train(folder, 3, 1, '1')
    job.expect('nobody reads the state from the store', readers == [])
    job.expect('the new process reads what was its own', own == ['rank 1'])


def all_that_keep_it_are_lost(folder):
    """A neighbour that dies with the copy: the store is read, and verified before."""
    job, readers, own = train(folder, 3, 1, '0,1')
    job.expect(f'all read it ({readers})', readers == ['rank 0', 'rank 1', 'rank 2', 'supervisor'])
    job.expect(f'rank 2 has its own file in memory ({own})', own == ['rank 0', 'rank 1', 'supervisor', 'supervisor', 'supervisor'])


def second_neighbour_is_left(folder):
    job, readers, _ = train(folder, 3, 2, '0,1')
    job.expect(f'nobody reads the state from the store ({readers})', readers == [])


def more_copies_than_ranks(folder):
    job, readers, _ = train(folder, 2, 100, '1')
    job.expect(f'nobody reads the state from the store ({readers})', readers == [])


def only_one_worker(folder):
    """Nobody else has a copy."""
    job, readers, _ = train(folder, 1, 1, '0')
    job.expect(f'all read it ({readers})', readers == ['rank 0', 'supervisor'])


def a_bit_is_flipped(folder):
    """The copy is not as it was committed: whoever has it from there reads the store."""
    job, readers, _ = train(folder, 3, 1, '0', 'flip')
    job.expect(f'all workers read it ({readers})', readers == ['rank 0', 'rank 1', 'rank 2'])


def another_file_is_lost(folder):
    """Of rank 0 alone, in which nobody else finds a reason to read what its neighbour has."""
    job, readers, _ = train(folder, 3, 1, '0', 'note')
    job.expect(f'nobody reads the state from the store ({readers})', readers == [])


def file_of_the_lost_one_is_damaged(folder):
    """Nobody has it in memory: the attempt that finds it damaged is not counted, and the next one begins a checkpoint earlier."""
    job = reach_the_same_bits(folder, 3, 1, '0', 'damage', attempts=3)
    ends = [json.loads(line) for line in (folder / 'lost/r/progress.jsonl').read_text().splitlines() if '"failed_attempt"' in line]
    begins = [end['training_iteration'] for end in ends]
    job.expect(f'it begins again after report 3, and then 2, not {begins}', begins == [3, 2])


def survivors_go_on(folder):
    """Without the ranks of an MPI job that are lost, the first one among them, whose state they have."""
    os.environ['RAYTRAIN_TEST_COMMAND'] = f'{launch[1]} {ask_for_ulfm(launch[1])}'
    job = Job(program, folder, 4, 2, '0,1')
    job.expect_all_say(1, 'result', 'finished, 2 attempts')
    job.expect('two ranks are left', len([line for line in job.lines_with('rank') if ' of 2 in attempt 2, ' in line]) == 2)
    readers, _ = readers_of(job)
    job.expect(f'nobody reads the state from the store ({readers})', readers == [])
    job.expect_nobody_left(10)


with tempfile.TemporaryDirectory() as storage:
    globals()[case](pathlib.Path(storage))
