# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess

WORKERS = 2
SIZES = {64: '64 B', 1 << 10: '1 KiB', 8 << 10: '8 KiB', 64 << 10: '64 KiB', 256 << 10: '256 KiB', 1 << 20: '1 MiB',
         4 << 20: '4 MiB', 16 << 20: '16 MiB', 64 << 20: '64 MiB'}
# Ratios of medians; see describe() for the twin.
GOALS_OPEN_MPI = {64: 1.5, 1 << 10: 2.5, 8 << 10: 8, 64 << 10: 5, 256 << 10: 4.2, 1 << 20: 4.5, 4 << 20: 3.5, 16 << 20: 3.5, 64 << 20: 8}
GOALS_GLOO = {1 << 10: 400, 64 << 10: 100, 1 << 20: 20, 64 << 20: 4}
GOAL_OF_BOUND = 0.95  # from 64 KiB on

OPEN_MPI_SETTINGS = {
    'default': [],
    'coll_sm': ['--mca', 'coll_sm_priority', '100'],
    'tuned, ring': ['--mca', 'coll_tuned_use_dynamic_rules', '1', '--mca', 'coll_tuned_allreduce_algorithm', '4'],
    'han': ['--mca', 'coll_han_priority', '100'],
}
# mpirun refuses root unless it is told that this is meant.
AS_ROOT = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


def describe():
    return 'all_reduce of 2 workers, against Open MPI, Gloo and the best kernel by hand (G1, G1b, G1d)'


def run(context):
    programs = context.build / 'benchmarks'
    for name, package in [('allreduce_open_mpi', 'libopenmpi-dev'), ('allreduce_gloo', 'libgloo-dev')]:
        if not (programs / name).exists():
            raise SystemExit(f'allreduce needs {package}: apt-get install --no-install-recommends {package}')

    def arguments(file, sizes, seconds):
        return ['--sizes', ','.join(map(str, sizes)), '--seconds', seconds, '--warm-up', 2 if context.quick else 5, '--json', file]

    def medians(command, sizes, seconds, env=None):
        """Microseconds by size, as rank 0 wrote them."""
        out = context.folder + '/rows.json'
        context.text(*command, *arguments(out, sizes, seconds), env=env)
        with open(out) as file:
            return {row['bytes']: row['p50_us'] for row in json.load(file)['rows']}

    def local(sizes, seconds):
        return medians([programs / 'allreduce', '--workers', WORKERS], sizes, seconds)

    def kernel(sizes, seconds):
        return medians([programs / 'allreduce_kernel'], sizes, seconds / 4)

    def open_mpi(setting, sizes, seconds):
        return medians(['mpirun', '-n', WORKERS, *OPEN_MPI_SETTINGS[setting], programs / 'allreduce_open_mpi'], sizes, seconds, AS_ROOT)

    def gloo(sizes, seconds):
        store = context.folder + '/store'
        second = subprocess.Popen([str(word) for word in [programs / 'allreduce_gloo', '--rank', 1, '--store', store,
                                                          *arguments('', sizes, seconds)]], stdout=subprocess.DEVNULL)
        result = medians([programs / 'allreduce_gloo', '--rank', 0, '--store', store], sizes, seconds)
        if second.wait() != 0:
            raise SystemExit('the second process over Gloo failed')
        pathlib.Path(store).unlink(missing_ok=True)
        return result

    seconds = 0.01 if context.quick else 0.1
    sizes = list(SIZES)
    ours, mpi, others, bound = [], [], [], []
    for _ in range(context.rounds):
        ours.append(local(sizes, seconds))
        mpi.append({name: open_mpi(name, sizes, seconds) for name in OPEN_MPI_SETTINGS})
        others.append(gloo(list(GOALS_GLOO), seconds))
        bound.append(kernel(sizes, seconds))

    best = {size: min(OPEN_MPI_SETTINGS, key=lambda name: sorted(turn[name][size] for turn in mpi)[len(mpi) // 2]) for size in sizes}
    for size, text in SIZES.items():
        context.row(f'{text}, 2 workers, float32', f'speed over Open MPI, {best[size]}',
                    [b[best[size]][size] / a[size] for a, b in zip(ours, mpi)], goal=GOALS_OPEN_MPI[size])
    for size, goal in GOALS_GLOO.items():
        context.row(f'{SIZES[size]}, 2 workers, float32', 'speed over Gloo', [b[size] / a[size] for a, b in zip(ours, others)], goal=goal)
    for size, text in SIZES.items():
        context.row(f'{text}, 2 workers, float32', 'share of the best kernel', [b[size] / a[size] for a, b in zip(ours, bound)],
                    goal=GOAL_OF_BOUND if size >= 64 << 10 else None)
    for size, text in SIZES.items():
        context.row(f'{text}, 2 workers, float32', 'LocalCollective, us', [a[size] for a in ours], direction='lower')
