# SPDX-License-Identifier: Apache-2.0
import tempfile


def describe():
    return 'what fit() costs against the same loop in threads written by hand (G3)'


def run(context):
    turns = 10 if context.quick else 20

    # The program itself takes turns between fit() and threads by hand.
    def steps(case, metric, name, work_us, steps, report, goal=None):
        context.row(case, metric, [context.program('steps', work_us, steps, turns, report, 'runs')[name]
                                   for _ in range(context.rounds)], goal=goal, direction='lower')

    steps('10 ms steps, all_reduce and report in each', 'cost of fit() in %', 'overhead_percent', 10_000, 20, 'report', 0.2)
    steps('empty steps, all_reduce in each', 'cost of fit() in us a step', 'overhead_us', 0, 50_000, 'quiet', 0.2)
    steps('100 us steps, all_reduce in each', 'cost of fit() in us a step', 'overhead_us', 100, 1000, 'quiet', 0.2)
    steps('100 us steps, all_reduce and report in each', 'cost of fit() in us a step', 'overhead_us', 100, 1000, 'report')

    with tempfile.TemporaryDirectory(dir='/dev/shm') as memory:
        for storage, folder, goal_ms in [('storage on disk', 'starts', 2), ('storage in memory', memory, 0.5)]:
            starts = [context.program('start', 30, f'{folder}/{number}') for number in range(context.rounds)]
            context.row(storage, 'fit() to first step in ms', [start['fit_ms'] for start in starts], goal=goal_ms, direction='lower')
            context.row(storage, 'threads by hand to first step in ms', [start['hand_ms'] for start in starts], direction='lower')
            context.row(storage, 'whole empty fit() in ms', [start['whole_fit_ms'] for start in starts], direction='lower')
