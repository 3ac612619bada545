# SPDX-License-Identifier: Apache-2.0
import statistics

# Of an MLP 784-h-h-10: the width h, batches of a turn, and how much of the gap is to be closed, in %.
MODELS = {'0.3 MB': (88, 200, 95), '9 MB': (1152, 16, 90), '69 MB': (3776, 4, 75)}
REDUCERS = {'gloo_copied': 'copied gradients', 'gloo_views': 'gradients as views of the buckets'}
COMPRESSED = {'bf16': 'in bf16', 'power_sgd': 'PowerSGD of rank 2'}
# Without an exchange of gradients, but for what each step does between backward and the optimizer.
BOUNDS = {'waiting': 'steps that only wait for each other', 'summing': 'an all_reduce of one array that is ready'}
ACCUMULATED = 4
# Ways to exchange gradients whose memory is measured, each in processes of its own. Memory that the ranks share counts in each.
OF_MEMORY = {'raytrain': 'raytrain', 'sharded': 'sharded optimizer', 'accumulated': f'accumulate({ACCUMULATED})', 'bf16': 'in bf16',
             'power_sgd': 'PowerSGD', 'gloo_views': 'Gloo, gradients as views', 'gloo_copied': 'Gloo, copied gradients'}


def describe():
    return "a data-parallel step, against none of its gradients exchanged and LibTorch's c10d::Reducer over Gloo (G2)"


def run(context):
    program = context.build / 'benchmarks/ddp_step/ddp_step'
    context.needs('ddp_step/ddp_step', 'libtorch-dev', 'libgloo-dev', 'libopenmpi-dev', 'openmpi-bin')
    turns = 1 if context.quick else 7
    # The largest takes too long for a look whether all runs.
    for size, (hidden, batches, goal) in [*MODELS.items()][:None if context.rounds > 1 else -1]:
        # The program itself takes turns between the ways to exchange gradients.
        rounds = [context.command('mpirun', '-n', 2, program, hidden, batches, turns, env=context.mpirun_env()) for _ in range(context.rounds)]
        case = f'{size} of gradients, 2 ranks'
        rows(context, case, goal, {side: [each[side] for each in rounds] for side in rounds[0]})
        if size == '9 MB' or not context.quick:  # a look has time for one
            memory_rows(context, case, {side: context.command('mpirun', '-n', 2, program, hidden, side, env=context.mpirun_env())['peak_mib']
                                        for side in ['apart', *OF_MEMORY]})


def rows(context, case, goal, us):
    best = min(REDUCERS, key=lambda side: statistics.median(us[side]))
    context.versions[f'Reducer, {case}'] = REDUCERS[best]

    def over(side, twin):
        return [a / b for a, b in zip(us[side], us[twin])]

    def shares(side):  # on a busy machine a round may have no gap, and so no share of it
        return [100 * (gloo - ours) / (gloo - apart) for gloo, ours, apart in zip(us[best], us[side], us['apart']) if gloo > apart]

    if shares('raytrain'):
        context.row(case, 'share of the gap between Gloo and no exchange that is closed, %', shares('raytrain'), goal=goal)
        for side, name in BOUNDS.items():
            context.row(case, f'{name}: the share that this closes, %', shares(side))
    else:
        print(f'{case}: with Gloo no round took longer than without an exchange, so that there is no gap to close')
    context.row(case, 'time of a step over Gloo', over('raytrain', best), direction='lower')
    context.row(case, 'time of a step over no exchange', over('raytrain', 'apart'), direction='lower')
    context.row(case, 'sharded optimizer: time of a step over the whole one on each worker', over('sharded', 'raytrain'), direction='lower')
    context.row(case, f'accumulate({ACCUMULATED}): time of a batch over a step for each', over('accumulated', 'raytrain'), direction='lower')
    context.row(case, f'accumulate({ACCUMULATED}): time of a batch over the same without an exchange', over('accumulated', 'apart_accumulated'),
                direction='lower')
    for side, name in COMPRESSED.items():
        context.row(case, f'{name}: time of a step over one of whole gradients', over(side, 'raytrain'), direction='lower')
    for side, name in {'apart': 'nothing exchanged', 'raytrain': 'raytrain', best: 'Gloo', 'sharded': 'sharded optimizer',
                       'accumulated': f'accumulate({ACCUMULATED})', **COMPRESSED}.items():
        context.row(case, f'{name}: us a batch', us[side], direction='lower')


def memory_rows(context, case, mib):
    context.row(case, 'nothing exchanged: peak memory of a worker, MiB', [mib['apart']], direction='lower')
    for side, name in OF_MEMORY.items():
        context.row(case, f'{name}: peak memory of a worker above nothing exchanged, MiB', [mib[side] - mib['apart']], direction='lower')
