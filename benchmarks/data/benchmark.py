# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import shlex

HERE = pathlib.Path(__file__).parent
# By the module that is imported.
PACKAGES = {'pandas': 'pandas', 'pyarrow': 'pyarrow', 'sklearn': 'scikit-learn', 'ray.data': 'ray[data]'}
# Of pipeline_twin.py, the one that was the fastest first; only with a buffer are rows shuffled, as ours are.
RAY_SETTINGS = ['buffer_blocks', 'large_batches', 'no_buffer', 'buffer']
FEATURES = {28: 20, 784: 3, 3072: 2}  # of a row, and how many times as fast as the DataLoader batches of it are to be


def describe():
    return ('reading CSV, lines of JSON and LIBSVM, and Parquet, map_batches, scalers and shuffled batches against pandas, Arrow, Ray Data, scikit-learn, plain '
            "loops and LibTorch's DataLoader (G8)")


def ratios(over, under):
    return [a / b for a, b in zip(over, under)]


def find_pythons(context):
    """Of each package that is there, the Python that has it; of others it says how to have them."""
    found = {}
    for module, package in PACKAGES.items():
        for version, python in context.pythons_with(module).items():
            found[module] = python
            context.versions[package.split('[')[0]] = version
            break
    own = context.build / 'data-python'
    missing = [package for module, package in PACKAGES.items() if module not in found]
    if missing:
        print(f'{", ".join(missing)} left out, since no python3 has it. To have all: apt-get install python3-venv && python3 -m venv {own} && '
              f'{own}/bin/pip install {" ".join(map(shlex.quote, PACKAGES.values()))}')
    return found


def csv_rows(context, pythons, rows, turns):
    tables = ('numbers.csv', 'mixed.csv')
    wanted = json.dumps(context.program('csv', 'write', *tables, rows))
    sides = {'raytrain': lambda _: context.program('csv', 'read', *tables, rows, turns)}
    for twin in [module for module in ('pandas', 'pyarrow') if module in pythons]:
        sides[twin] = lambda _, twin=twin: context.command(pythons[twin], '-B', HERE / 'csv_twin.py', twin, *tables, turns, wanted)
    gave = context.in_turns(sides)
    twins = [side for side in gave if side != 'raytrain']
    numbers, texts = f'read_csv, {rows} x 10 numbers', f'read_csv, {rows} rows of numbers and texts'
    for case, what, ours, theirs in ((numbers, 'rows/s of a core', 'numbers_ms', 'numbers_ms'),
                                     (f'{numbers} as float64', 'rows/s of a core', 'float64_ms', 'numbers_ms'),
                                     (texts, 'rows/s of a core', 'mixed_ms', 'mixed_ms'),
                                     (numbers, 'rows/s on all cores', 'numbers_wall_ms', 'numbers_wall_ms'),
                                     (texts, 'rows/s on all cores', 'mixed_wall_ms', 'mixed_wall_ms')):
        our_ms = [each[ours] for each in gave['raytrain']]
        if twins:
            best_ms = [min(gave[twin][number][theirs] for twin in twins) for number in range(context.rounds)]
            context.row(case, f'{what}: times that of the best of {" and ".join(twins)}', ratios(best_ms, our_ms), goal=1)
        context.row(case, what, [1e3 * rows / ms for ms in our_ms])
        for twin in twins:
            context.row(case, f'{twin}: {what}', [1e3 * rows / each[theirs] for each in gave[twin]])


def parquet_rows(context, rows, turns):
    if not (context.build / 'benchmarks/data/parquet').exists():
        print('Parquet is left out. To have it: ./tests/run parquet, which fetches Arrow')
        return
    # The program itself takes turns.
    gave = [context.program('parquet', 'table.parquet', rows, turns) for _ in range(context.rounds)]
    context.versions['arrow'] = gave[0]['version']
    case = f'read_parquet, {rows} x 10 float32'
    ours, by_hand, unverified = ([each[f'{side}_ms'] for each in gave] for side in ('raytrain', 'by_hand', 'unverified'))
    context.row(case, 'rows/s of a core: times that of Arrow by hand', ratios(by_hand, ours), goal=0.95)
    context.row(case, 'the same, by hand without checksums of pages', ratios(unverified, ours))
    context.row(case, 'rows/s of a core', [1e3 * rows / ms for ms in ours])


def lines_rows(context, pythons, rows, turns):
    tables, files = ('numbers.csv', 'mixed.csv'), ('mixed.jsonl', 'numbers.libsvm')
    context.program('csv', 'write', *tables, rows)
    wanted = json.dumps(context.program('lines', 'write', *tables, *files))
    sides = {'raytrain': lambda _: context.program('lines', 'read', *tables, *files, turns)}
    twins = {'pyarrow': ('json', 'read_json_lines', files[0]), 'sklearn': ('libsvm', 'read_libsvm', files[1])}
    for twin, (_, _, file) in twins.items():
        if twin in pythons:
            sides[twin] = lambda _, twin=twin, file=file: context.command(pythons[twin], '-B', HERE / 'lines_twin.py', twin, file, turns, wanted)
    gave = context.in_turns(sides)
    for twin, (side, reader, _) in twins.items():
        case = f'{reader}, {rows} rows'
        our_ms = [each[f'{side}_ms'] for each in gave['raytrain']]
        if twin in gave:
            their_ms = [each['ms'] for each in gave[twin]]
            context.row(case, f'rows/s of a core: times that of {PACKAGES[twin]}', ratios(their_ms, our_ms), goal=1)
            context.row(case, f'{PACKAGES[twin]}: rows/s of a core', [1e3 * rows / ms for ms in their_ms])
        context.row(case, 'rows/s of a core', [1e3 * rows / ms for ms in our_ms])
        context.row(case, 'rows/s on all cores', [1e3 * rows / each[f'{side}_wall_ms'] for each in gave['raytrain']])


def map_rows(context, rows, turns):
    # The program itself takes turns.
    gave = [context.program('map_batches', rows, turns) for _ in range(context.rounds)]
    case = f'map_batches, cosine transform of {rows} images of 28 x 28'

    def times_as_fast(slow, fast):
        return [each[slow] / each[fast] for each in gave]

    context.row(case, '2 threads: times as fast as 1', times_as_fast('mapped_1_ms', 'mapped_2_ms'), goal=1.8)
    context.row(case, '2 plain threads: times as fast as 1', times_as_fast('plain_1_ms', 'plain_2_ms'))
    context.row(case, '1 thread: times as fast as a plain loop', times_as_fast('plain_1_ms', 'mapped_1_ms'))
    context.row(case, '1 thread: rows/s', [1e3 * rows / each['mapped_1_ms'] for each in gave])


def pipeline_rows(context, pythons, rows):
    table = 'pipeline.csv'
    context.program('csv', 'write', 'unused.csv', table, rows)

    sides = {'raytrain': lambda _: context.program('pipeline', table, rows)}
    if 'ray.data' in pythons:
        def ray(setting):
            return context.command(pythons['ray.data'], '-B', HERE / 'pipeline_twin.py', table, rows, setting)

        settings = RAY_SETTINGS[:1] if context.quick else RAY_SETTINGS
        best = min(settings, key=lambda setting: ray(setting)['wall_ms']) if len(settings) > 1 else settings[0]
        context.versions['ray setting'] = best
        sides['ray'] = lambda _: ray(best)
    # Ray Data takes half a minute for a round.
    gave = {side: [run(0)] for side, run in sides.items()} if context.quick else context.in_turns(sides)
    case = f'read_csv, fill, scale, encode, shuffled batches: {rows} rows'
    our_ms = [each['wall_ms'] for each in gave['raytrain']]
    if 'ray.data' in pythons:
        their_ms = [each['wall_ms'] for each in gave['ray']]
        context.row(case, 'times as fast as Ray Data on all cores', ratios(their_ms, our_ms))
        context.row(case, 'Ray Data: s', [ms / 1e3 for ms in their_ms], direction='lower')
        context.row(case, 'Ray Data: s to start, which are not counted',
                    [each['start_ms'] / 1e3 for each in gave['ray']], direction='lower')
    context.row(case, 's', [ms / 1e3 for ms in our_ms], direction='lower')


def scaler_rows(context, pythons, rows, turns):
    matrix = 'matrix.npy'
    context.program('scalers', matrix, rows, 1)  # leaves the matrix for the twin, whichever begins
    sides = {'raytrain': lambda _: context.program('scalers', matrix, rows, turns)}
    if 'sklearn' in pythons:
        sides['sklearn'] = lambda _: context.command(pythons['sklearn'], '-B', HERE / 'scalers_twin.py', matrix, turns)
    gave = context.in_turns(sides)
    pass_ms = [each['pass_ms'] for each in gave['raytrain']]
    for scaler, name, bandwidth_goal in (('StandardScaler', 'standard_ms', 70), ('MinMaxScaler', 'min_max_ms', None),
                                         ('RobustScaler', 'robust_ms', None)):
        case = f'{scaler}::fit, {rows} x 16 float32'
        fit_ms = [each[name] for each in gave['raytrain']]
        context.row(case, '% of the bandwidth of one pass', [100 * ratio for ratio in ratios(pass_ms, fit_ms)], goal=bandwidth_goal)
        if 'sklearn' in pythons:
            context.row(case, 'times as fast as scikit-learn', ratios([each[name] for each in gave['sklearn']], fit_ms), goal=5)
        context.row(case, 'ms of a core', fit_ms, direction='lower')
    context.row(f'{rows} x 16 float32', 'one pass that adds up, GB/s',
                [each['bytes'] / 1e6 / each['pass_ms'] for each in gave['raytrain']])


def batch_rows(context, mebibytes):
    has_twin = (context.build / 'benchmarks/data/data_loader').exists()
    if not has_twin:
        print("LibTorch's DataLoader is left out. To have it: apt-get install --no-install-recommends libtorch-dev")
    for features, goal in FEATURES.items():
        rows = (mebibytes << 20) // (4 * features)
        sides = {'raytrain': lambda _, size=(features, rows): context.program('batches', *size, 1)}
        if has_twin:
            sides['twin'] = lambda _, size=(features, rows): context.program('data_loader', *size, 1)
        gave = context.in_turns(sides)
        ours = [each['rows_per_s'] for each in gave['raytrain']]
        case = f'shuffled batches of 256 x {features} float32, {mebibytes} MiB'
        if has_twin:
            theirs = [each['rows_per_s'] for each in gave['twin']]
            context.row(case, "rows/s: times those of LibTorch's DataLoader", ratios(ours, theirs), goal=goal)
            context.row(case, 'DataLoader: rows/s', theirs)
            context.row(case, 'DataLoader: workers, best of 0 to 2', [each['workers'] for each in gave['twin']])
            context.versions['torch'] = gave['twin'][0]['version']
        context.row(case, 'rows/s', ours)
        context.row(case, 'to go on at the last batch instead of at the first, ms', [each['position_ms'] for each in gave['raytrain']],
                    goal=1, direction='lower')


def window_rows(context, rows):
    gave = [context.program('windows', rows) for _ in range(context.rounds)]
    case = f'the order of an epoch of {rows} rows, shuffled in windows of 65536'
    context.row(case, 'ns of a core a row', [each['row_ns'] for each in gave], direction='lower')
    context.row(case, 'peak memory of the process, MiB', [each['peak_mib'] for each in gave], direction='lower')


def run(context):
    pythons = find_pythons(context)
    is_check = context.rounds == 1
    turns = 1 if is_check else 3
    csv_rows(context, pythons, 20_000 if is_check else 100_000 if context.quick else 500_000, turns)
    parquet_rows(context, 20_000 if is_check else 500_000 if context.quick else 2_000_000, turns)
    lines_rows(context, pythons, 20_000 if is_check else 100_000 if context.quick else 200_000, turns)
    map_rows(context, 2_000 if is_check else 20_000 if context.quick else 100_000, turns)
    pipeline_rows(context, pythons, 20_000 if is_check else 100_000 if context.quick else 500_000)
    scaler_rows(context, pythons, 100_000 if is_check else 500_000 if context.quick else 2_000_000, turns)
    batch_rows(context, 8 if is_check else 16 if context.quick else 128)
    window_rows(context, 1_000_000 if is_check else 100_000_000 if context.quick else 1_000_000_000)
