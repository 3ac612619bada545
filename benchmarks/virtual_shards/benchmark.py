# SPDX-License-Identifier: Apache-2.0
STEPS = {'mlp': 936, 'conv': 468}
QUICK_STEPS = {'mlp': 468, 'conv': 120}
WORKERS = 2
# Shards and parts of each, against the same training without shards, whose workers add up as many parts.
COSTS = {'2 shards, 2 workers': (2, 1), '4 shards, 2 workers': (4, 2), '8 shards, 2 workers': (8, 4)}


def describe():
    return 'what virtual shards cost a training whose number of workers stays, against gradients that are added up without them'


def run(context):
    context.needs('virtual_shards/virtual_shards', 'libtorch-dev')
    for model, steps in (QUICK_STEPS if context.quick else STEPS).items():
        for name, (shards, parts) in COSTS.items():
            speeds = context.in_turns({
                'shards': lambda _: context.program('virtual_shards', model, steps, shards, parts)['samples_per_s'],
                'none': lambda _: context.program('virtual_shards', model, steps, 0, parts)['samples_per_s']})
            context.row(f'{model}, {name}', 'cost of a step, %', [100 * (b / a - 1) for a, b in zip(speeds['shards'], speeds['none'])],
                        goal=3, direction='lower')
            context.row(f'{model}, {name}', 'samples/s', speeds['shards'])
