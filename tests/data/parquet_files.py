# SPDX-License-Identifier: Apache-2.0
"""Writes Parquet and Arrow files by pyarrow, starts the tests that read them, and reads by pyarrow what they have written:

  parquet_files.py PROGRAM
"""
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

program = os.path.abspath(sys.argv[1])
sys.modules['numpy'] = None  # pyarrow does without, and refuses one that is older than it likes
try:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet
except ImportError as missing:
    print(f'needs pyarrow in this Python: {missing}')
    sys.exit(77)


def pixels():
    lines = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(range(12), pyarrow.uint8()), 2)
    return pyarrow.FixedSizeListArray.from_arrays(lines, 2)


since = datetime.datetime(1970, 1, 1)
day = since.date()
FILES = {
    'types': {
        'age': pyarrow.array([1.5, None, 3], pyarrow.float32()),
        'half': pyarrow.array([1, 0.25, 3], pyarrow.float16()),
        'id': pyarrow.array([9007199254740993, -2, 3], pyarrow.int64()),
        'small': pyarrow.array([0, 255, 7], pyarrow.uint8()),
        'ok': [True, False, True],
        'city': ['Oslo', None, 'Aix\n"en" P.'],
        'large': pyarrow.array(['a', '', None], pyarrow.large_string()),
        'raw': pyarrow.array([b'\0\xff', b'b', b'c'], pyarrow.binary()),
        'kind': pyarrow.array(['cat', None, 'cat']).dictionary_encode(),
        'pixels': pixels(),
        'points': [[1.0, 2.0], [3.0, None], [5.0, 6.0]],
        'when': pyarrow.array([datetime.datetime(2020, 1, 1), since, since - datetime.timedelta(microseconds=1)], pyarrow.timestamp('us')),
        'day': [datetime.date(2020, 1, 1), day, day - datetime.timedelta(days=1)],
        'none': pyarrow.nulls(3),
    },
    'gaps': {'n': pyarrow.array([1, None, 16777217], pyarrow.int64())},
    'decimal': {'price': pyarrow.array([1, 2], pyarrow.decimal128(10, 2))},
    'ragged': {'x': [[1, 2], [3]]},
    'no_list': {'x': [[1, 2], None]},
    'empty_lists': {'x': pyarrow.array([[], []], pyarrow.list_(pyarrow.int32()))},
    'texts_in_lists': {'x': [['a', 'b'], ['c', 'd']]},
    'structs': {'x': [{'a': 1}]},
    'no_rows': {'x': pyarrow.array([], pyarrow.float32())},
    'gaps_1': {'n': pyarrow.array([1, None], pyarrow.int64())},
    'gaps_2': {'n': pyarrow.array([1, 2], pyarrow.int64())},
    'unit_1': {'when': pyarrow.array([1], pyarrow.timestamp('us'))},
    'unit_2': {'when': pyarrow.array([1], pyarrow.timestamp('ns'))},
    'few': {'x': pyarrow.array([1, 2, 3, 4, 5], pyarrow.float32()), 't': ['a', 'b', None, '', 'a']},
    'bools': {'x': [[True, False], [False, False]]},
    'bool_gaps': {'x': [True, None]},
    'mixed_1': {'x': [True, False]},
    'mixed_2': {'x': pyarrow.array([1, 0], pyarrow.uint8())},
    'late_1': {'x': pyarrow.nulls(2)},
    'late_2': {'x': ['a', 'b']},
}


def write_arrow(path, *tables, compression=None):
    """Of the file format or, where the name ends in .arrows, of the stream format; each part of a table is a record batch."""
    begin = pyarrow.ipc.new_stream if path.suffix == '.arrows' else pyarrow.ipc.new_file
    with begin(path, tables[0].schema, options=pyarrow.ipc.IpcWriteOptions(compression=compression)) as writer:
        for table in tables:
            writer.write_table(table)


def codes(sizes, kinds, whole):
    return pyarrow.table({'size': pyarrow.array(sizes).dictionary_encode(), 'kind': pyarrow.array(kinds).dictionary_encode(),
                          'whole': pyarrow.array(whole, pyarrow.int64()).dictionary_encode()})


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    for name, columns in FILES.items():
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f'{name}.parquet')
        write_arrow(folder / f'{name}.arrow', pyarrow.table(columns))
    twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=['x', 'x'])
    pyarrow.parquet.write_table(twice, folder / 'twice.parquet')
    pyarrow.parquet.write_table(pyarrow.table({'': [1, 2]}), folder / 'nameless.parquet')
    many = [f'number {i}' for i in range(30_000)]
    for name, texts, rows in [('long_texts', ['x' * 20_000] * 20_000, 20_000), ('many_texts', many, 20_000), ('one_group', many, 30_000)]:
        pyarrow.parquet.write_table(pyarrow.table({'t': texts}), folder / f'{name}.parquet', row_group_size=rows, compression='zstd')
    for encoding in ['DELTA_BYTE_ARRAY', 'DELTA_LENGTH_BYTE_ARRAY']:
        table = pyarrow.table({'t': [None if i % 7 == 3 else 'the same begin of each, ' * 20 + f'{i:05}' for i in range(30_000)]})
        pyarrow.parquet.write_table(table, folder / f'{encoding}.parquet', use_dictionary=False, column_encoding=encoding, data_page_size=1 << 28)
    alike = pyarrow.table({'t': ['x' * 50_000] * 1000})
    with pyarrow.parquet.ParquetWriter(folder / 'alike.parquet', alike.schema, use_dictionary=False, column_encoding='DELTA_BYTE_ARRAY',
                                       data_page_size=1 << 28) as writer:
        for _ in range(16):
            writer.write_table(alike)
    pyarrow.parquet.write_table(pyarrow.table({'x': [['a', 'b']] * 5}), folder / 'texts_in_lists_of_groups.parquet', row_group_size=2)
    write_arrow(folder / 'twice.arrow', twice)
    types = pyarrow.table(FILES['types'])
    write_arrow(folder / 'types.arrows', types)
    for compression in ['lz4', 'zstd']:
        pyarrow.feather.write_feather(types, str(folder / f'types_{compression}.feather'), compression=compression)
        write_arrow(folder / f'types_{compression}.arrows', types, compression=compression)
    zeros = pyarrow.table({'x': pyarrow.Array.from_buffers(pyarrow.float64(), 5_000_000, [None, pyarrow.py_buffer(bytes(40_000_000))])})
    for name in ['zeros.arrow', 'zeros.arrows']:
        write_arrow(folder / name, *[zeros] * 14, compression='zstd')
    few = pyarrow.table(FILES['few'])
    for name, compression in [('few.arrow', None), ('few.arrows', None), ('few_lz4.arrows', 'lz4')]:
        write_arrow(folder / name, few[:3], few[3:3], few[3:], compression=compression)
    write_arrow(folder / 'codes.arrows', codes([30, 10, None], ['cat', 'dog', 'cow'], [7, 7, 8]), codes([10, 20], [None, 'cat'], [9, 9]))
    done = subprocess.run([program], env={**os.environ, 'RAYTRAIN_TEST_PARQUET': scratch}, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    for table in [pyarrow.parquet.read_table(folder / 'of_raytrain.parquet'), pyarrow.feather.read_table(folder / 'of_raytrain.arrow')]:
        table.validate(full=True)
        types = {field.name: str(field.type) for field in table.schema}
        if table.num_rows != 100 or types['words, "quoted"'] != 'large_string' or types['one int16'] != 'int16' or len(types) != 25 or (
                'fixed_size_list' not in types['many float32']) or types['one bool'] != 'bool' or (
                'element: bool' not in types['many bool'] and 'item: bool' not in types['many bool']):
            sys.exit(f'pyarrow reads {table.num_rows} rows of what raytrain has written: {types}')
    again = pyarrow.parquet.read_table(folder / 'types_again.parquet')
    wanted = {name: column for name, column in pyarrow.table(FILES['types']).to_pydict().items() if name != 'raw'}
    if str(again['ok'].type) != 'bool':
        sys.exit(f"pyarrow reads ok as {again['ok'].type}, and not as bool")
    wanted.update(none=[None] * 3, when=[1_577_836_800_000_000, 0, -1], day=[18262, 0, -1])
    for name, values in wanted.items():
        is_text = again[name].type == pyarrow.large_string()
        # A number that is missing is NaN, which equals nothing.
        expected = str(values) if is_text else str(values).replace('None', 'nan')
        if str(again[name].to_pylist()) != expected:
            sys.exit(f'pyarrow reads {name} as {again[name].to_pylist()}, and not as {expected}')
