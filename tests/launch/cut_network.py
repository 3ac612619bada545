# SPDX-License-Identifier: Apache-2.0
"""Trains as the ranks of a job on two hosts, between which the network is cut in the middle of the training:

  cut_network.py CASE MPIRUN PROGRAM

The hosts are those that hosts.py makes. mpirun itself does not notice, and is ended with the test.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parent.parent / 'collective'))
import hosts  # noqa: E402
from job import Output, wait_for_end  # noqa: E402

FOLDER = pathlib.Path('/run')
PLACES = {'alpha': (0, 1), 'beta': (2, 3)}
INSIDE = '--inside'
# What nobody has, so that what is sent there is lost, and the sender is told nothing.
NOBODY = '02:00:00:00:00:99'
# A host that is not heard of for 30 s is lost; its own ranks then may take their time to return, and to write how they end.
LIMIT = 60


def unplugged(_):
    hosts.run('ip', 'link', 'set', 'to_beta', 'down')


def deaf(_):
    """beta hears nothing of alpha, which hears beta."""
    hosts.run('ip', 'neigh', 'replace', hosts.HOSTS['beta'], 'lladdr', NOBODY, 'dev', 'wire', 'nud', 'permanent')


def mute(beta):
    """alpha hears nothing of beta, which hears alpha."""
    hosts.run(*beta, 'ip', 'neigh', 'replace', hosts.HOSTS['alpha'], 'lladdr', NOBODY, 'dev', 'wire', 'nud', 'permanent')


def said_by(rank):
    path = FOLDER / f'said.{rank}'
    return path.read_text() if path.exists() else ''


def inside(cut, mpirun, program):
    hosts.run('mount', '-t', 'tmpfs', 'none', FOLDER)
    agent = hosts.make_hosts([*PLACES], FOLDER)
    beta = re.search(r'^  beta\) exec (nsenter .*) sh -c', agent.read_text(), re.MULTILINE)[1].split()
    # What they say does not come through a network that is cut.
    say = ['sh', '-c', f'exec "$0" "$@" >{FOLDER}/said.$OMPI_COMM_WORLD_RANK 2>&1']
    command = [mpirun, '--host', 'alpha:2,beta:2', *hosts.options(mpirun, agent, FOLDER), '-n', '4', *say, program, FOLDER / 'runs', 'wait']
    job = subprocess.Popen([str(word) for word in command], env={**os.environ, 'RAYTRAIN_TEST_RANKS': '4', 'TMPDIR': str(FOLDER / 'tmp')},
                           stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + LIMIT
    while not all(f'rank {rank} waits' in said_by(rank) for rank in range(4)):
        if job.poll() is not None or time.monotonic() > deadline:
            sys.exit('\n'.join(['they do not come to train', *map(said_by, range(4))]))
    cut(beta)
    start = time.monotonic()
    for rank in range(4):
        process = int(re.search(rf'^rank {rank} of .* process (\d+)$', said_by(rank), re.MULTILINE)[1])
        wait_for_end(process, start + LIMIT - time.monotonic())
    seconds = time.monotonic() - start
    job.kill()
    whole = Output('\n'.join(map(said_by, range(4))), job.wait(), seconds)
    whole.expect('all have ended in time', seconds < LIMIT)
    first = Output(said_by(0), 0, seconds)
    for rank in (2, 3):
        first.expect_all_say(1, 'failed', f'rank {rank} on beta: process ', 'its connection brought nothing for more than 30000 ms: '
                             'its process stands still, or its host is cut off', 'start it again to go on from')
        other = Output(said_by(rank), 0, seconds)
        other.expect_all_say(1, 'error', f'training on rank {rank}: the connection to the controller on rank 0 on alpha ended: ',
                             'stands still, or its host is cut off', 'the next start goes on from the last checkpoint')


CASES = {function.__name__: function for function in (unplugged, deaf, mute)}

if sys.argv[1] == INSIDE:
    inside(CASES[sys.argv[2]], *sys.argv[3:])
else:
    reason = hosts.reason_to_skip(sys.argv[2])
    if reason:
        print(f'skipped: {reason}')
        sys.exit(hosts.SKIPPED)
    # In place of this process, so that who ends it ends them.
    os.execvp(hosts.ISOLATED[0], [*hosts.ISOLATED, sys.executable, '-B', __file__, INSIDE, *sys.argv[1:]])
