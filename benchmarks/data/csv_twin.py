# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of csv.cpp:  csv_twin.py pandas|pyarrow NUMBERS MIXED TURNS FOUND

FOUND: what csv.cpp says that a reader must find. Prints the CPU time of a reading in one thread, by the best of a few settings, and
the time of one in as many threads as the reader has."""
import json
import statistics
import sys
import time

TEXTS = ['paid', 'city', 'product']


def pandas_readers():
    import pandas

    def summary(data):
        found = {}
        for name in data:
            column = data[name]
            found[name] = {'missing': int(column.isna().sum())}
            if name in TEXTS:
                found[name] |= {'categories': int(column.nunique()), 'length': int(column.dropna().astype(str).str.len().sum())}
            else:
                found[name]['sum'] = float(column.sum())
        return found

    def reader(**options):
        # Texts as categories, which is what raytrain makes of them; numbers as they are read by default.
        dtypes = {'numbers': {}, 'mixed': {name: 'category' for name in TEXTS}}
        return lambda table, path: pandas.read_csv(path, engine='c', dtype=dtypes[table], **options)

    readers = [reader(), reader(low_memory=False)]
    return pandas.__version__, readers, readers, summary


def pyarrow_readers():
    import pyarrow
    import pyarrow.compute
    from pyarrow import csv

    def summary(data):
        found = {}
        for name in data.column_names:
            column = data[name]
            found[name] = {'missing': column.null_count}
            if name in TEXTS:
                texts = column.cast(pyarrow.string())
                found[name] |= {'categories': len(texts.unique().drop_null()),
                                'length': pyarrow.compute.sum(pyarrow.compute.utf8_length(texts)).as_py()}
            else:
                found[name]['sum'] = pyarrow.compute.sum(column.cast(pyarrow.float64())).as_py()
        return found

    def reader(use_threads=False, **options):
        convert = csv.ConvertOptions(strings_can_be_null=True, auto_dict_encode=True, auto_dict_max_cardinality=10000)
        return lambda _, path: csv.read_csv(path, csv.ReadOptions(use_threads=use_threads, **options), convert_options=convert)

    on_all_cores = [reader(use_threads=True), reader(use_threads=True, block_size=16 << 20)]
    return pyarrow.__version__, [reader(), reader(block_size=16 << 20)], on_all_cores, summary


def is_same(found, wanted):
    return found.keys() == wanted.keys() and all(
        abs(found[name][key] - wanted[name][key]) <= 1e-6 * abs(wanted[name][key]) for name in wanted for key in wanted[name])


def best_ms(clock, readers, table, path, turns, is_right):
    """The median of some readings, of the setting that is the fastest."""
    times = [[] for _ in readers]
    for _ in range(turns):
        for reader, of_reader in zip(readers, times):
            begin = clock()
            data = reader(table, path)
            of_reader.append(1000 * (clock() - begin))
            is_right(data)
    return min(map(statistics.median, times))


def main():
    who, numbers, mixed, turns, wanted = sys.argv[1:]
    version, on_one_core, on_all_cores, summary = {'pandas': pandas_readers, 'pyarrow': pyarrow_readers}[who]()
    wanted = json.loads(wanted)
    result = {'version': version}
    for table, path in {'numbers': numbers, 'mixed': mixed}.items():
        def is_right(data):
            if not is_same(summary(data), wanted[table]):
                sys.exit(f'{who} has found {summary(data)} in {path}, and not {wanted[table]}')

        result[f'{table}_ms'] = best_ms(time.process_time, on_one_core, table, path, int(turns), is_right)
        result[f'{table}_wall_ms'] = best_ms(time.monotonic, on_all_cores, table, path, int(turns), is_right)
    print(json.dumps(result))


main()
