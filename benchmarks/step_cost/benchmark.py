# SPDX-License-Identifier: Apache-2.0
import statistics

CASES = {1: 'a world of one', 2: 'each of 2 threads'}
BATCHES = {'same': 'the same batch', 'drawn': 'batches of a dataset'}
GOAL_US = 5
TIMES_GOAL_US = 1


def describe():
    return 'what a step of the smallest model costs of ours, in CPU time over the same loop with plain LibTorch'


def run(context):
    context.needs('step_cost/step_cost', 'libtorch-dev')
    epochs, turns = (10, 5) if context.quick else (50, 15)
    for workers, who in CASES.items():
        # The program itself takes turns between fit() and the loops by hand.
        rounds = [context.program('step_cost', workers, epochs, turns) for _ in range(context.rounds)]
        for batches, name in BATCHES.items():
            def median_us(side, twin=None):
                """CPU time of a step in each round, or that by which it is more than a twin's of the same turn."""
                return [statistics.median(us - (each[f'{batches}_{twin}'][turn] if twin else 0)
                                          for turn, us in enumerate(each[f'{batches}_{side}'])) for each in rounds]

            case = f'Linear(1, 1), {who}, {name}'
            context.row(case, 'us a step more than by hand', median_us('fit', 'by_hand'), goal=GOAL_US, direction='lower')
            if workers > 1:
                # Where the cores are busy, most of what is more is the wait for the other worker, which spins before it sleeps.
                context.row(case, 'us more than by hand with an all_reduce of its gradients', median_us('fit', 'averaged'),
                            goal=GOAL_US, direction='lower')
            context.row(case, 'by hand: us a step', median_us('by_hand'), direction='lower')
        if workers == 1:
            # Nobody can turn them off, so that there is no step without.
            context.row('step times', 'us a step', [statistics.median(each['step_times']) for each in rounds], goal=TIMES_GOAL_US, direction='lower')
