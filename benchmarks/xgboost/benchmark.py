# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile
import time

GOAL_THREADS, GOAL_PROCESSES, GOAL_EXAMPLE_S = 0.97, 1.0, 0.1
GOALS_REPORT_PERCENT = {10_000: 3, 100_000: 1}

WORKERS = 2
ROUNDS = {10_000: 500, 100_000: 100, 1_000_000: 30}  # of boosting, for each number of rows
QUICK_ROUNDS = {10_000: 200, 100_000: 40}
REPORT_ROUNDS = 400
QUICK_ENVIRONMENTS = 1
FED_ROWS, QUICK_FED_ROWS, FED_ROUNDS = 1_000_000, 200_000, 10

# What the twin can be given: how it holds the rows, and how OpenMP's threads wait, which is raytrain's environment, too.
MATRICES = ['dmatrix', 'quantile']
ENVIRONMENTS = {'OpenMP as it is': {}, 'OMP_WAIT_POLICY=active': {'OMP_WAIT_POLICY': 'active'},
                'OMP_WAIT_POLICY=passive': {'OMP_WAIT_POLICY': 'passive'}}

ROOT = pathlib.Path(__file__).parents[2]


def describe():
    return 'boosting trees by XGBoost, on threads and in 2 processes, against its C API by hand (G7), and what it and LightGBM are fed'


def run(context):
    context.needs('xgboost/raytrain', 'libxgboost-dev', 'libopenmpi-dev', 'openmpi-bin')
    context.make('examples/breast_cancer')
    context.text('bash', '-c', 'source "$1" && fetch_breast_cancer', '-', ROOT / 'setup')
    context.versions['libxgboost-dev'] = context.text('dpkg-query', '-W', '-f', '${Version}', 'libxgboost-dev')
    # In memory, since the twin waits for no disk.
    with tempfile.TemporaryDirectory(dir='/dev/shm') as storage:
        trainings(context, storage)
        feeding(context, storage)
    first_example(context)


def trainings(context, storage):
    folders = iter(range(1_000_000))

    def raytrain(rows, rounds, held, training, environment=None, launch=()):
        program = context.build / 'benchmarks/xgboost/raytrain'
        return context.command(*launch, program, rows, rounds, held, training, f'{storage}/{next(folders)}', env=environment)

    for rows, rounds in (QUICK_ROUNDS if context.quick else ROUNDS).items():
        threads(context, raytrain, rows, rounds)
        if rows <= 100_000:
            reports(context, raytrain, rows)
        if rows >= 100_000:
            processes(context, raytrain, rows, rounds)


def over(figures, name, ours, twin):
    return [a[name] / b[name] for a, b in zip(figures[ours], figures[twin])]


def check_equal(context, figures, sides):
    losses = {turn['loss'] for side in sides for turn in figures[side]}
    if max(losses) - min(losses) > 1e-6:
        context.fail(f'{" and ".join(sides)} have trained different models: their losses are {sorted(losses)}')


def threads(context, raytrain, rows, rounds):
    case = f'{rows} rows, {WORKERS} threads'

    def native(matrix, environment=None, rounds=rounds):
        return context.program('native', rows, rounds, WORKERS, matrix, env=environment)

    environments = list(ENVIRONMENTS.items())[:QUICK_ENVIRONMENTS if context.quick else None]
    trials = {(matrix, name): native(matrix, environment, rounds // 2)['rounds_per_s']
              for matrix in MATRICES for name, environment in environments}
    best, waiting = max(trials, key=trials.get)
    context.versions[f'native, {rows} rows'] = f'{best} with {waiting}'
    environment = ENVIRONMENTS[waiting]
    figures = context.in_turns({
        'table': lambda _: raytrain(rows, rounds, 'table', 'ready', environment),
        'columns': lambda _: raytrain(rows, rounds, 'columns', 'ready', environment),
        'mapped': lambda _: raytrain(rows, rounds, 'mapped', 'ready', environment),
        'distributed': lambda _: raytrain(rows, rounds, 'table', 'distributed', environment),
        **{matrix: lambda _, matrix=matrix: native(matrix, environment) for matrix in MATRICES}})
    check_equal(context, figures, [side for side in figures if side != 'distributed'])  # whose bins are others

    # On threads raytrain has one booster, too: this is what it costs around XGBoost.
    context.row(case, 'one booster: rounds/s over native', over(figures, 'rounds_per_s', 'table', best), goal=GOAL_THREADS)
    context.row(case, 'a booster for each worker: rounds/s over native', over(figures, 'rounds_per_s', 'distributed', best))
    context.row(case, 'the same, a column for each feature', over(figures, 'rounds_per_s', 'columns', best))
    context.row(case, 'from rows to stored model, speed over native', over(figures, 'whole_rounds_per_s', 'table', best))
    context.row(case, 'rows mapped from files, from rows to stored model: speed over rows in memory', over(figures, 'whole_rounds_per_s', 'mapped', 'table'))
    context.row(case, 'the same, and written into the files first', over(figures, 'fed_rounds_per_s', 'mapped', 'table'))
    for matrix in MATRICES:
        context.row(case, f'peak memory over native with {matrix}', over(figures, 'peak_mib', 'table', matrix), direction='lower')
    names = {'table': 'raytrain', 'mapped': 'raytrain, mapped from files', 'columns': 'raytrain, a column for each feature', 'distributed': 'raytrain, distributed', **{name: f'native, {name}' for name in MATRICES}}
    for side, name in names.items():
        context.row(case, f'{name}: rounds/s', [turn['rounds_per_s'] for turn in figures[side]])
    for side, name in names.items():
        context.row(case, f'{name}: peak memory, MiB', [turn['peak_mib'] for turn in figures[side]], direction='lower')


def reports(context, raytrain, rows):
    context.row(f'{rows} rows, {WORKERS} threads', 'cost of a report in each round, %',
                [raytrain(rows, REPORT_ROUNDS, 'table', 'reports')['report_percent'] for _ in range(context.rounds)],
                goal=GOALS_REPORT_PERCENT[rows], direction='lower')


def processes(context, raytrain, rows, rounds):
    case = f'{rows} rows, {WORKERS} processes'
    mpirun = ['mpirun', '-n', WORKERS]
    environment = context.mpirun_env()

    def native(how, matrix='quantile'):
        return context.command(sys.executable, '-B', pathlib.Path(__file__).parent / 'processes.py', WORKERS, how,
                               context.build / 'benchmarks/xgboost/native', rows, rounds, 1, matrix)

    best = max(MATRICES, key=lambda matrix: native('together', matrix)['rounds_per_s'])
    figures = context.in_turns({'raytrain': lambda _: raytrain(rows, rounds, 'table', 'ready', environment, mpirun),
                                'together': lambda _: native('together', best), 'apart': lambda _: native('apart', best)})
    check_equal(context, figures, ['raytrain', 'together'])
    context.row(case, "rounds/s over XGBoost's own distributed mode", over(figures, 'rounds_per_s', 'raytrain', 'together'),
                goal=GOAL_PROCESSES)
    context.row(case, 'from rows to stored model, speed over the same', over(figures, 'whole_rounds_per_s', 'raytrain', 'together'))
    lost = [1 - share for share in over(figures, 'rounds_per_s', 'together', 'apart')]
    context.row(case, 'native: share of a round that processes which exchange nothing save', lost, direction='lower')
    for side in ['raytrain', 'together']:
        name = side if side == 'raytrain' else 'native'
        context.row(case, f"{name}: share of a round in XGBoost's send, recv and poll",
                    [turn['exchange_share'] for turn in figures[side]], direction='lower')
    for side, name in {'raytrain': 'raytrain', 'together': 'native', 'apart': 'native, nothing exchanged'}.items():
        context.row(case, f'{name}: rounds/s', [turn['rounds_per_s'] for turn in figures[side]])


def feeding(context, storage):
    """Rows of a CSV file, of a fifth as many, too, so that what each further row takes is told apart from what all take."""
    rows = QUICK_FED_ROWS if context.quick else FED_ROWS
    files = {count: f'{storage}/rows_{count}.csv' for count in (rows, rows // 5)}
    for count, file in files.items():
        context.program('feeding', 'write', file, count)
    for library in context.program('feeding', 'libraries')['libraries']:
        feed(context, storage, library, files)


def feed(context, storage, library, files):
    rows, few = files
    case, folders = f'{rows} rows of CSV to {library}, 2 threads', iter(range(1_000_000))

    def fed(side, count):
        return lambda _: context.program('feeding', library, side, files[count], FED_ROUNDS, f'{storage}/fed_{library}_{count}_{next(folders)}')

    sides = ('memory', 'blocks', 'mapped')
    figures = context.in_turns({(side, count): fed(side, count) for side in sides for count in files})
    for count in files:
        models = {turn['model'] for side in sides for turn in figures[side, count]}
        if len(models) != 1:
            context.fail(f'rows from memory, blocks and mapped files have trained {len(models)} different models of {library}')
    for side, name in (('blocks', 'block by block'), ('mapped', 'block by block into mapped files')):
        context.row(case, f'{name}: rows/s from the file to the matrix, over reading them into memory',
                    over(figures, 'rows_per_s', (side, rows), ('memory', rows)))
        context.row(case, f'{name}: peak memory over that of rows in memory', over(figures, 'peak_mib', (side, rows), ('memory', rows)), direction='lower')
    for side in sides:
        context.row(case, f'{side}: rows/s from the file to the matrix', [turn['rows_per_s'] for turn in figures[side, rows]])
        context.row(case, f'{side}: peak memory, MiB', [turn['peak_mib'] for turn in figures[side, rows]], direction='lower')
        context.row(case, f'{side}: memory for a further row, bytes',
                    [(many['peak_mib'] - some['peak_mib']) * 2**20 / (rows - few) for many, some in zip(figures[side, rows], figures[side, few])],
                    direction='lower')


def first_example(context):
    times = []
    for number in range(context.rounds):
        begin = time.monotonic()
        context.text(context.build / 'examples/breast_cancer', '--data', context.build / 'datasets/breast_cancer.csv',
                     '--storage', f'example_{number}')
        times.append(time.monotonic() - begin)
    context.row('breast_cancer, 569 rows', 'the program, from start to end, s', times, goal=GOAL_EXAMPLE_S, direction='lower')
