# SPDX-License-Identifier: Apache-2.0
"""Other networks, and more workers on each host: RAYTRAIN_BENCHMARK_RATES=100mbit,1gbit RAYTRAIN_BENCHMARK_HOST_WORKERS=1,2"""
import os
import pathlib
import re
import shutil
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / 'tests/collective'))
import hosts  # noqa: E402

# Of an MLP 784-600-...-600-10 with 6 hidden layers: with batches of so many samples its backward takes about as long as to exchange its
# gradients by 1 Gbit/s, on cores that do 60 GFLOP/s. The row of what a backward could hide tells how it is here.
WIDTH, LAYERS, SAMPLES, MEGABYTES = 600, 6, 768, 9
BATCHES = 4  # of a turn
RATES, WORKERS = '1gbit,10gbit', '1'
# The layer that comes last in a backward has these of the gradients.
LAST_SHARE = 784 * WIDTH / (784 * WIDTH + (LAYERS - 1) * WIDTH * WIDTH + WIDTH * 10)
# What the program says of its ways to exchange gradients; it may have less of them.
NAMES = {'apart': 'nothing exchanged', 'raytrain': 'raytrain', 'overlapped': 'raytrain, while backward goes on', 'bf16': 'raytrain, in bf16',
         'overlapped bf16': 'raytrain, in bf16 while backward goes on',
         'power_sgd': 'raytrain, PowerSGD of rank 2',
         'gloo': 'c10d::Reducer over Gloo'}
HIDING = ['overlapped bf16', 'gloo']
# Where an exchange takes longer than a backward, as by a slower network, less can be hidden.
HIDDEN_GOAL, LEFT_GOAL = 0.6, 0.5


def describe():
    return 'a data-parallel step on two hosts, by a network of 1 or 10 Gbit/s, against none of its gradients exchanged and Gloo'


def chosen(context, variable, usual, pattern):
    """What a variable lists, checked before anything starts."""
    text = os.environ.get(variable, usual)
    for word in text.split(','):
        if not re.fullmatch(pattern, word):
            context.fail(f"{variable}: '{word}' is not of the form {pattern}, as in {variable}={usual}")
    return text.split(',')


def run(context):
    program = context.build / 'benchmarks/ddp_hosts/ddp_hosts'
    context.needs('ddp_hosts/ddp_hosts', 'libtorch-dev', 'libgloo-dev', 'libopenmpi-dev', 'openmpi-bin')
    rates = chosen(context, 'RAYTRAIN_BENCHMARK_RATES', RATES, '[1-9][0-9]*[kmg]bit')
    workers = chosen(context, 'RAYTRAIN_BENCHMARK_HOST_WORKERS', WORKERS, '[1-9][0-9]?')
    mpirun = shutil.which('mpirun')
    if reason := hosts.reason_to_skip(mpirun, rates[0]):
        context.skip(reason)
    context.versions['mpirun'] = context.text(mpirun, '--version').splitlines()[0]
    # A look has time for one.
    for rate, count in [(rate, count) for count in workers for rate in rates][:1 if context.quick else None]:
        command = [sys.executable, '-B', hosts.__file__, '--rate', rate, f'alpha:{count},beta:{count}', mpirun, program, WIDTH, LAYERS, SAMPLES,
                   BATCHES, 1 if context.quick else 3, 'wire']
        # The program itself takes turns between the ways to exchange gradients.
        rounds = [context.command(*command, env=context.mpirun_env()) for _ in range(context.rounds)]
        rows(context, f'{MEGABYTES} MB of gradients, {rate}, {count} on a host', {side: [each[side] for each in rounds] for side in rounds[0]},
             2 * int(count), has_goals=rate in RATES.split(','))


def rows(context, case, us, workers, has_goals):
    def over(side, twin):
        return [a / b for a, b in zip(us[side], us[twin])]

    backwards = us.pop('backward')
    for side in list(us)[1:]:
        context.row(case, f'{NAMES[side]}: time of a step over no exchange', over(side, 'apart'), direction='lower')
    def share(metric, part, whole, **goal):
        """Of the time that a step takes longer than without an exchange."""
        # On a busy machine a round may have none.
        shares = [parts / all_of_it for parts, all_of_it in zip(part, whole) if all_of_it > 0]
        if shares:
            context.row(case, metric, shares, **goal)
        else:
            print(f'{case}: in no round an exchange took time: no {metric}')

    def beyond(side, twin='apart'):
        return [a - b for a, b in zip(us[side], us[twin])]

    share('share of the exchange hidden by overlap', beyond('raytrain', 'overlapped'), beyond('raytrain'),
          goal=HIDDEN_GOAL if has_goals else None)
    # A backward hides no more than it lasts, and nothing of what comes when it ends.
    share('share of the exchange that could be hidden', [min(backward, exchange * (1 - LAST_SHARE)) for backward, exchange in
                                                        zip(backwards, beyond('raytrain'))], beyond('raytrain'))
    # More than all is gone where a step in 16 bits takes no longer than one without an exchange.
    share('share of the rest that compression leaves', [max(0, left) for left in beyond('overlapped bf16')], beyond('overlapped'),
          goal=LEFT_GOAL if has_goals else None, direction='lower')
    for side in HIDING:
        share(f"{NAMES[side]}: share of raytrain's exchange that is hidden", beyond('raytrain', side), beyond('raytrain'))
    for side, times in us.items():
        context.row(case, f'{NAMES[side]}: ms a step', [time / 1000 for time in times], direction='lower')
        context.row(case, f'{NAMES[side]}: samples/s', [workers * SAMPLES * 1e6 / time for time in times])
