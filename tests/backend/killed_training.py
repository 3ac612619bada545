# SPDX-License-Identifier: Apache-2.0
"""Trainings that are killed at random points and started again, each compared with an undisturbed one, bit for bit:

  killed_training.py PROGRAM mlp|conv|language [POINTS]

A training is killed up to four times, ever farther on. POINTS is 6, or what RAYTRAIN_TEST_KILL_POINTS says. RAYTRAIN_TEST_SEED
repeats a run of this test.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

STEPS = 60
PLACES = ['forward', 'backward', 'optimizer', 'report', 'reported', 'epoch', 'commit', *['anywhere'] * 7]
EVERY = {'report': 6, 'reported': 6, 'commit': 6, 'epoch': 20}
MOST_SPINS = 4_000_000  # some milliseconds, in which several steps are done


def start(program, network, storage, step=0, place='-', spins=0):
    done = subprocess.run([program, storage, network, str(step), place, str(spins)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        sys.exit(f'it fails with status {done.returncode}: {done.stderr}')
    return done


def points_of(choice, count):
    points = []
    for step in sorted(choice.sample(range(1, STEPS + 1), count)):
        place = choice.choice(PLACES)
        # Of which not every step has one.
        step += -step % EVERY.get(place, 1)
        points.append((step, place, choice.randrange(MOST_SPINS) if choice.random() < 0.8 else 0))
    return points


def main():
    program, network, *rest = sys.argv[1:]
    wanted = int(rest[0] if rest else os.environ.get('RAYTRAIN_TEST_KILL_POINTS', 6))
    seed = int(os.environ.get('RAYTRAIN_TEST_SEED') or random.SystemRandom().getrandbits(32))
    print(f'RAYTRAIN_TEST_SEED={seed}', flush=True)
    choice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix='raytrain-killed-') as folder:
        whole = start(program, network, pathlib.Path(folder) / 'whole').stdout
        print(whole)
        killed = trainings = 0
        places = {}
        while killed < wanted:
            trainings += 1
            storage = pathlib.Path(folder) / str(trainings)
            points = points_of(choice, min(choice.randint(1, 4), wanted - killed))
            for step, place, spins in points:
                was_killed = start(program, network, storage, step, place, spins).returncode == -signal.SIGKILL
                killed += was_killed
                places[place] = places.get(place, 0) + was_killed
            again = start(program, network, storage).stdout
            if again != whole:
                sys.exit(f'killed at {points} it ends otherwise:\n{again}')
    print(f'{killed} kills in {trainings} trainings, all with the bits of the undisturbed one: {places}')


if __name__ == '__main__':
    main()
