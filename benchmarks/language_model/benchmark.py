# SPDX-License-Identifier: Apache-2.0
import pathlib
import statistics
import time

HERE = pathlib.Path(__file__).resolve().parent
STEPS, QUICK_STEPS, TRIAL_STEPS = 60, 15, 10
# What a twin can be told from outside; raytrain's TorchBackend keeps freed memory.
KEEP_MEMORY = {'MALLOC_TRIM_THRESHOLD_': str(1 << 30), 'MALLOC_MMAP_THRESHOLD_': str(1 << 30)}
SETTINGS = {
    'freed memory kept': KEEP_MEMORY,
    'freed memory kept, OMP_WAIT_POLICY=active': {**KEEP_MEMORY, 'OMP_WAIT_POLICY': 'active'},
    'freed memory kept, OMP_WAIT_POLICY=passive': {**KEEP_MEMORY, 'OMP_WAIT_POLICY': 'passive'},
    'default': {},
}
# How gradients travel beside whole, and the side's name: the loss tells what that costs.
COMPRESSED = {'bf16': 'raytrain, in bf16', 'power_sgd': 'raytrain, PowerSGD of rank 2'}
APART = 'each worker for itself'  # the bound for every way to exchange gradients
QUICK_TRIALS, TRIALS = 1, 3  # of each setting, in turns


def describe():
    return "a small transformer on text, against plain LibTorch and Python's DistributedDataParallel over Gloo"


def run(context):
    context.needs('language_model/raytrain', 'libtorch-dev')
    steps = QUICK_STEPS if context.quick else STEPS

    def side(name, command):
        """In the setting that is best for it here."""
        def job(count, setting):
            return context.command(*command, count, time.monotonic(), env=SETTINGS[setting])

        trials = {setting: [] for setting in SETTINGS}
        for _ in range((QUICK_TRIALS if context.quick else TRIALS) if context.rounds > 1 else 0):
            for setting in SETTINGS:
                trials[setting].append(job(TRIAL_STEPS, setting)['bytes_per_s'])
        best = max(trials, key=lambda setting: statistics.median(trials[setting] or [0]))
        context.versions[name] = best
        return lambda _: job(steps, best)

    folder = context.build / 'benchmarks' / 'language_model'
    sides = {'raytrain': lambda _: context.program('raytrain', steps, time.monotonic()), '1 process': side('1 process', [folder / 'serial'])}
    for name in COMPRESSED:
        sides[COMPRESSED[name]] = lambda _, name=name: context.program('raytrain', steps, time.monotonic(), name)
    sides[APART] = lambda _: context.program('raytrain', steps, time.monotonic(), 'apart')
    pythons = context.pythons_with_torch()
    if not pythons:
        print('DistributedDataParallel is left out: no Python has PyTorch. To have it: apt-get install python3-torch')
    for version, python in pythons.items():
        name = f'DDP of PyTorch {version}'
        sides[name] = side(name, [python, '-B', HERE / 'ddp.py'])
    gave = context.in_turns(sides)

    def figures(name, of):
        return [turn[of] for turn in gave[name]]

    for name in COMPRESSED.values():
        context.row(name, 'loss after the same bytes over that of whole gradients',
                    [a['loss'] / b['loss'] for a, b in zip(gave[name], gave['raytrain'])], direction='lower')
    for twin in [name for name in gave if name not in ('raytrain', APART, *COMPRESSED.values())]:
        both = list(zip(gave['raytrain'], gave[twin]))
        goal = 1.1 if twin == '1 process' else 1.3
        context.row(twin, 'bytes/s: times as many', [a['bytes_per_s'] / b['bytes_per_s'] for a, b in both], goal=goal)
        context.row(twin, 'loss after the same bytes: off by %', [100 * abs(a['loss'] / b['loss'] - 1) for a, b in both], goal=1,
                    direction='lower')
        context.row(twin, f'{APART}: bytes/s: times as many',
                    [a['bytes_per_s'] / b['bytes_per_s'] for a, b in zip(gave[APART], gave[twin])])
    for name in gave:
        context.row(name, 'bytes/s', figures(name, 'bytes_per_s'))
        context.row(name, 'start to end of first step, s', figures(name, 'first_step_s'), direction='lower')
        context.row(name, 'peak memory of the first process, MiB', figures(name, 'peak_mb'), direction='lower')
