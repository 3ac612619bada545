# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of csv.cpp in one thread:  csv_twin.py pandas|pyarrow NUMBERS MIXED TURNS FOUND

FOUND: what csv.cpp says that a reader must find. Prints the CPU time of a reading, by the best of a few settings."""
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

    return pandas.__version__, [reader(), reader(low_memory=False)], summary


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

    def reader(**options):
        convert = csv.ConvertOptions(strings_can_be_null=True, auto_dict_encode=True, auto_dict_max_cardinality=10000)
        return lambda _, path: csv.read_csv(path, csv.ReadOptions(use_threads=False, **options), convert_options=convert)

    return pyarrow.__version__, [reader(), reader(block_size=16 << 20)], summary


def is_same(found, wanted):
    return found.keys() == wanted.keys() and all(
        abs(found[name][key] - wanted[name][key]) <= 1e-6 * abs(wanted[name][key]) for name in wanted for key in wanted[name])


def main():
    who, numbers, mixed, turns, wanted = sys.argv[1:]
    version, readers, summary = {'pandas': pandas_readers, 'pyarrow': pyarrow_readers}[who]()
    wanted = json.loads(wanted)
    result = {'version': version}
    for table, path in {'numbers': numbers, 'mixed': mixed}.items():
        times = [[] for _ in readers]
        for _ in range(int(turns)):
            for reader, of_reader in zip(readers, times):
                begin = time.process_time()
                data = reader(table, path)
                of_reader.append(1000 * (time.process_time() - begin))
                if not is_same(summary(data), wanted[table]):
                    sys.exit(f'{who} has found {summary(data)} in {path}, and not {wanted[table]}')
        result[f'{table}_ms'] = min(map(statistics.median, times))
    print(json.dumps(result))


main()
