# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess

from end_together import end_together

WORKERS = 2
SIZES = {64: '64 B', 1 << 10: '1 KiB', 8 << 10: '8 KiB', 64 << 10: '64 KiB', 256 << 10: '256 KiB', 1 << 20: '1 MiB',
         4 << 20: '4 MiB', 16 << 20: '16 MiB', 64 << 20: '64 MiB'}
# Ratios of medians; see describe() for the twin. The first are of arrays that the collective allocates.
GOALS_OPEN_MPI = {64: 1.5, 1 << 10: 2.5, 8 << 10: 8, 64 << 10: 5, 256 << 10: 4.2, 1 << 20: 4.5, 4 << 20: 3.5, 16 << 20: 3.5, 64 << 20: 8}
GOALS_OWN_ARRAYS = {8 << 10: 4.5, 64 << 10: 2, 256 << 10: 1.4, 1 << 20: 1.4, 4 << 20: 1.2, 16 << 20: 1.2, 64 << 20: 3.5}
GOALS_GLOO = {1 << 10: 400, 64 << 10: 100, 1 << 20: 20, 64 << 20: 4}
GOAL_OF_BOUND = 0.95  # from 64 KiB on
GOAL_CROWDED = 1.5  # times std::barrier and a kernel
GOAL_MPI_COST_NS, GOAL_MPI_COST_SHARE = 100, 0.02  # either

CROWDS = [4, 16, 64]
CROWDED_SIZES = [64 << 10, 1 << 20]
WORKER_COUNTS = [2, 4, 8, 16, 32, 64]

OPEN_MPI_SETTINGS = {
    'default': [],
    'coll_sm': ['--mca', 'coll_sm_priority', '100'],
    'tuned, ring': ['--mca', 'coll_tuned_use_dynamic_rules', '1', '--mca', 'coll_tuned_allreduce_algorithm', '4'],
    'han': ['--mca', 'coll_han_priority', '100'],
}
QUICK_SETTINGS = ['default', 'han']  # one of them was the best of every size
# mpirun refuses root unless it is told that this is meant.
AS_ROOT = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


def describe():
    return 'all_reduce of threads and MPI ranks, against Open MPI, Gloo and kernels by hand (G1, G1b, G1c, G1d, G6)'


def run(context):
    programs = context.build / 'benchmarks'
    context.needs('allreduce_open_mpi', 'libopenmpi-dev', 'openmpi-bin')
    context.needs('allreduce_gloo', 'libtorch-dev', 'libgloo-dev')
    settings = {name: setting for name, setting in OPEN_MPI_SETTINGS.items() if not context.quick or name in QUICK_SETTINGS}
    crowds, worker_counts = ([16], [2, 64]) if context.quick else (CROWDS, WORKER_COUNTS)

    def arguments(file, sizes, seconds):
        return ['--sizes', ','.join(map(str, sizes)), '--seconds', seconds, '--warm-up', 2 if context.quick else 5, '--json', file]

    out = context.folder + '/rows.json'

    def rows():
        """By size, as rank 0 wrote them."""
        with open(out) as file:
            return {row['bytes']: row for row in json.load(file)['rows']}

    def measured(command, sizes, seconds, env=None):
        context.text(*command, *arguments(out, sizes, seconds), env=env)
        return rows()

    def medians(*call, **keywords):
        """Microseconds by size."""
        return {size: row['p50_us'] for size, row in measured(*call, **keywords).items()}

    def threads(workers, *options):
        return [programs / 'allreduce', '--workers', workers, *options]

    def kernel(workers):
        return [programs / 'allreduce_kernel', '--workers', workers]

    def mpirun(*words):
        return ['mpirun', '-n', WORKERS, *words]

    def gloo(sizes, seconds):
        store = context.folder + '/store'
        command = [programs / 'allreduce_gloo', '--store', store, *arguments(out, sizes, seconds)]
        statuses = end_together([subprocess.Popen([str(word) for word in [*command, '--rank', rank]], stdout=subprocess.DEVNULL)
                                 for rank in range(WORKERS)])
        if any(statuses):
            context.fail(f'the processes over Gloo have ended with the exit statuses {statuses}')
        pathlib.Path(store).unlink(missing_ok=True)
        return {size: row['p50_us'] for size, row in rows().items()}

    def contest(command, sizes, env=None):
        """Of each size, by contender: microseconds of each turn."""
        out = context.folder + '/turns.json'
        context.text(*command, '--sizes', ','.join(map(str, sizes)), '--seconds', 0.01 if context.quick else 0.1,
                     '--warm-up', 2 if context.quick else 5, '--json', out, env=env)
        with open(out) as file:
            return {int(size): turns for size, turns in json.load(file).items()}

    def ratios(turns, contender, ours='raytrain'):
        return [b / a for a, b in zip(turns[ours], turns[contender])]

    def together(contests):
        """The turns of all rounds, of those who took part in each."""
        return {size: {name: [us for each in contests for us in each[size][name]]
                       for name in contests[0][size] if all(name in each[size] for each in contests)} for size in contests[0]}

    def middle(values):
        return sorted(values)[len(values) // 2]

    def with_fastest_kernel(contests):
        """In each round the kernel that was fastest in it."""
        for each in contests:
            for turns in each.values():
                turns['kernel'] = min((us for name, us in turns.items() if name != 'raytrain'), key=middle)
        return contests

    seconds = 0.01 if context.quick else 0.1
    sizes = list(SIZES)
    gave = context.in_turns({
        **{name: lambda _, setting=setting: contest(mpirun(*setting, programs / 'allreduce_open_mpi'), sizes, env=AS_ROOT)
           for name, setting in settings.items()},
        'kernel': lambda _: contest(kernel(WORKERS), sizes),
        'threads': lambda _: measured(threads(WORKERS), sizes, seconds),
        'ranks': lambda _: medians(mpirun(programs / 'allreduce'), list(GOALS_GLOO), seconds, env=AS_ROOT),
        'Gloo': lambda _: gloo(list(GOALS_GLOO), seconds)})
    mpi = {name: together(gave[name]) for name in settings}
    bound = together(with_fastest_kernel(gave['kernel']))
    local = gave['threads']
    local_us = [{size: row['p50_us'] for size, row in turn.items()} for turn in local]

    # Of each size, the setting that leaves us the least.
    best = {size: min(settings, key=lambda name: middle(ratios(mpi[name][size], 'Open MPI'))) for size in sizes}
    for ours, who, goals in [('raytrain', '2 MPI ranks', GOALS_OPEN_MPI), ('raytrain, any arrays', '2 MPI ranks, any arrays', GOALS_OWN_ARRAYS)]:
        for size, text in SIZES.items():
            context.row(f'{text}, {who}, float32', f'speed over Open MPI, {best[size]}',
                        ratios(mpi[best[size]][size], 'Open MPI', ours), goal=goals.get(size))
    for size, text in SIZES.items():
        # Threads are no ranks: their times are of another process than MPI's, and no pairs with them.
        context.row(f'{text}, 2 threads, float32', f'speed over Open MPI, {best[size]}, unpaired',
                    [middle(mpi[best[size]][size]['Open MPI']) / us for us in bound[size]['raytrain']], goal=GOALS_OPEN_MPI[size])
    for who, ours in [('2 threads', local_us), ('2 MPI ranks', gave['ranks'])]:
        for size, goal in GOALS_GLOO.items():
            context.row(f'{SIZES[size]}, {who}, float32', 'speed over Gloo, unpaired', [b[size] / a[size] for a, b in zip(ours, gave['Gloo'])],
                        goal=goal)
    for size, text in SIZES.items():
        context.row(f'{text}, 2 threads, float32', 'share of the best kernel', ratios(bound[size], 'kernel'),
                    goal=GOAL_OF_BOUND if size >= 64 << 10 else None)

    for workers in crowds:
        turns = together(with_fastest_kernel([contest(kernel(workers), CROWDED_SIZES) for _ in range(context.rounds)]))
        for size in CROWDED_SIZES:
            context.row(f'{SIZES[size]}, {workers} threads, float32', 'time over std::barrier and a kernel',
                        [1 / ratio for ratio in ratios(turns[size], 'kernel')], goal=GOAL_CROWDED, direction='lower')

    mpi_cost(context, programs)

    for workers in worker_counts:
        waits = context.in_turns({
            'all_reduce': lambda _: medians(threads(workers), [8], seconds)[8],
            'barrier': lambda _: medians(threads(workers, '--collective', 'barrier'), [8], seconds)[0]})
        context.row(f'8 B, {workers} threads, float32', 'all_reduce, us', waits['all_reduce'], direction='lower')
        context.row(f'{workers} threads', 'barrier, us', waits['barrier'], direction='lower')
    for size, text in SIZES.items():
        context.row(f'{text}, 2 threads, float32', 'time over the traffic model', [a[size]['p50_us'] / a[size]['model_us'] for a in local],
                    direction='lower')
    for turns, ours, who in [(bound, 'raytrain', '2 threads'), (mpi['default'], 'raytrain', '2 MPI ranks'),
                             (mpi['default'], 'raytrain, any arrays', '2 MPI ranks, any arrays')]:
        for size, text in SIZES.items():
            context.row(f'{text}, {who}, float32', 'all_reduce, us', turns[size][ours], direction='lower')


def mpi_cost(context, programs):
    """Between hosts: nanoseconds that are ours, where a share of the time would not be allowed to be more."""
    turns = [json.loads(context.text('mpirun', '-n', WORKERS, programs / 'allreduce_mpi_cost', 5 if context.quick else 15, env=AS_ROOT))
             for _ in range(context.rounds)]
    for size in map(int, turns[0]):
        pairs = [turn[str(size)] for turn in turns]
        what = f'{SIZES.get(size, f"{size} B")}, 2 ranks that share no memory, float32'
        allowed = max(GOAL_MPI_COST_NS, GOAL_MPI_COST_SHARE * min(pair['by_hand_ns'] for pair in pairs))
        context.row(what, 'ns more than MPI by hand', [pair['ours_ns'] - pair['by_hand_ns'] for pair in pairs],
                    goal=allowed, direction='lower')
        # What it costs that a wait can be interrupted, which is MPI's.
        context.row(what, 'time over blocking MPI_Allreduce', [pair['ours_ns'] / pair['blocking_ns'] for pair in pairs],
                    direction='lower')
