# SPDX-License-Identifier: Apache-2.0
import statistics
import time

PARAMETERS = {'mlp': 235_146, 'conv': 21_840}
STEPS = {'mlp': 936, 'conv': 468}  # of 128 samples: two epochs, one epoch
QUICK_STEPS = {'mlp': 300, 'conv': 120}
WORKERS = 2
BATCH_BYTES = 64 * (784 * 4 + 8)

# What a twin can be told from outside. glibc gives freed memory back to the system by default, and takes it anew at
# every step; raytrain's TorchBackend keeps it.
KEEP_MEMORY = {'MALLOC_TRIM_THRESHOLD_': str(1 << 30), 'MALLOC_MMAP_THRESHOLD_': str(1 << 30)}
SETTINGS = {
    'serial': {
        'freed memory kept': ([], KEEP_MEMORY),
        'freed memory kept, OMP_WAIT_POLICY=active': ([], {**KEEP_MEMORY, 'OMP_WAIT_POLICY': 'active'}),
        'freed memory kept, OMP_WAIT_POLICY=passive': ([], {**KEEP_MEMORY, 'OMP_WAIT_POLICY': 'passive'}),
        'default': ([], {}),
    },
    'gloo': {
        'gradients as views, freed memory kept': (['views'], KEEP_MEMORY),
        'gradients as views': (['views'], {}),
        'copied gradients': (['copied'], {}),
    },
}
QUICK_SETTINGS = 2  # of each twin, those that are best most often
TRIALS, QUICK_TRIALS = 5, 2  # of each setting, in turns


def describe():
    return 'training on Fashion-MNIST as a whole, against plain LibTorch and two processes over Gloo (G0)'


def run(context):
    context.needs('main_job/gloo', 'libtorch-dev', 'libgloo-dev')

    def job(program, model, steps, arguments=(), env=None):
        return context.program(program, model, steps, time.monotonic(), *arguments, env=env)

    ranks_program = context.build / 'benchmarks/main_job/ranks'  # is there where MPI is

    def on_ranks(model, steps):
        return context.command('mpirun', '-n', WORKERS, ranks_program, model, steps, time.monotonic(), env=context.mpirun_env())

    # Each twin gets the settings that are best here.
    def best_setting(twin, model):
        settings = dict(list(SETTINGS[twin].items())[:QUICK_SETTINGS if context.quick else None])
        trials = {name: [] for name in settings}
        for _ in range(QUICK_TRIALS if context.quick else TRIALS):
            for name, setting in settings.items():
                trials[name].append(job(twin, model, 100, *setting)['samples_per_s'])
        name = max(trials, key=lambda name: statistics.median(trials[name]))
        context.versions[f'{twin}, {model}'] = name
        return SETTINGS[twin][name]

    for model in PARAMETERS:
        steps = (QUICK_STEPS if context.quick else STEPS)[model]
        settings = {twin: best_setting(twin, model) for twin in SETTINGS}
        sides = {'raytrain': lambda _: job('raytrain', model, steps),
                 'sharded': lambda _: job('raytrain', model, steps, ['sharded']),
                 'accumulating': lambda _: job('raytrain', model, steps, ['accumulate']),
                 'serial': lambda _: job('serial', model, steps, *settings['serial']),
                 'gloo': lambda _: job('gloo', model, steps, *settings['gloo']),
                 'apart': lambda _: job('gloo', model, steps, ['apart'], KEEP_MEMORY)}
        if ranks_program.exists():
            sides['ranks'] = lambda _: on_ranks(model, steps)
        rows(context, model, context.in_turns(sides))
        restored = [context.program('restored', model, 3 if context.quick else 9)['restored_ms'] for _ in range(context.rounds)]
        context.row(model, "within an epoch, sharded optimizer: fit() to end of a restored run's first step, ms", restored, direction='lower',
                    **({'goal': 50} if model == 'mlp' else {}))


def rows(context, model, gave):
    def ratio(twin, side='raytrain'):
        return [a['samples_per_s'] / b['samples_per_s'] for a, b in zip(gave[side], gave[twin])]

    def figures(side, name):
        return [figures[name] for figures in gave[side]]

    # The optimizer is a large part of the MLP's step, and none of the other's.
    is_mlp = model == 'mlp'
    context.row(model, 'samples/s over 1 process with 2 threads', ratio('serial'), **({} if is_mlp else {'goal': 1.15}))
    context.row(model, 'samples/s over 2 processes with c10d::Reducer and Gloo', ratio('gloo'), goal=2.5 if is_mlp else 1.5)
    context.row(model, 'samples/s over 2 processes that exchange nothing', ratio('apart'), **({'goal': 1.05} if is_mlp else {}))
    context.row(model, '2 processes that exchange nothing: samples/s over 1 process with 2 threads',
                [a['samples_per_s'] / b['samples_per_s'] for a, b in zip(gave['apart'], gave['serial'])])
    context.row(model, 'sharded optimizer: samples/s over 1 process with 2 threads', ratio('serial', 'sharded'),
                **({'goal': 1.15} if is_mlp else {}))
    context.row(model, 'sharded optimizer: samples/s over the whole one on each worker', ratio('raytrain', 'sharded'))
    context.row(model, 'a step for 4 accumulated batches: samples/s over one for each batch', ratio('raytrain', 'accumulating'))
    if 'ranks' in gave:
        context.row(model, 'on ranks: samples/s over 2 processes with c10d::Reducer and Gloo', ratio('gloo', 'ranks'))
        context.row(model, 'on ranks: samples/s over threads', ratio('raytrain', 'ranks'))
        context.row(model, 'on ranks: mpirun to end of first step, s', figures('ranks', 'first_step_s'), direction='lower')
    context.row(model, 'program start to end of first step, s', figures('raytrain', 'first_step_s'), goal=0.55, direction='lower')
    allowed = WORKERS * (2 * 4 * PARAMETERS[model] + BATCH_BYTES) / 2**20
    for name, side, goal in (('', 'raytrain', {}), ('sharded optimizer: ', 'sharded', {'goal': round(allowed, 2)})):
        context.row(model, f'{name}peak memory above 1 process, MiB',
                    [a - b for a, b in zip(figures(side, 'peak_mb'), figures('serial', 'peak_mb'))], direction='lower', **goal)
    for name, side in [('raytrain', 'raytrain'), ('sharded optimizer', 'sharded'), ('1 process', 'serial'), ('Gloo', 'gloo'),
                       ('nothing exchanged', 'apart')]:
        context.row(model, f'{name}: samples/s', figures(side, 'samples_per_s'))
    for name, side in [('raytrain', 'raytrain'), ('sharded optimizer', 'sharded'), ('1 process', 'serial'),
                       ('Gloo, one of its processes', 'gloo')]:
        context.row(model, f'{name}: peak memory, MiB', figures(side, 'peak_mb'), direction='lower')
    for name, side in [('1 process', 'serial'), ('Gloo', 'gloo')]:
        context.row(model, f'{name}: first step, s', figures(side, 'first_step_s'), direction='lower')
