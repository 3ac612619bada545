# SPDX-License-Identifier: Apache-2.0
"""CPU time in which others read what lines.cpp has written:  lines_twin.py pyarrow|sklearn FILE TURNS FOUND

FOUND: what lines.cpp says that a reader must find. In one thread, by the best of a few settings."""
import json
import statistics
import sys
import time


def pyarrow_readers():
    import pyarrow
    import pyarrow.compute
    from pyarrow import json as lines

    def reader(**options):
        return lambda path: lines.read_json(path, lines.ReadOptions(use_threads=False, **options))

    return pyarrow.__version__, [reader(), reader(block_size=16 << 20)], lambda data: (
        data.num_rows, pyarrow.compute.sum(data['price']).as_py())


def sklearn_readers():
    import numpy
    import sklearn
    from sklearn.datasets import load_svmlight_file
    return sklearn.__version__, [load_svmlight_file, lambda path: load_svmlight_file(path, dtype=numpy.float32)], lambda data: (
        data[0].shape[0], float(data[1].sum(dtype=float)))


def main():
    who, path, turns, wanted = sys.argv[1:]
    version, readers, found = {'pyarrow': pyarrow_readers, 'sklearn': sklearn_readers}[who]()
    wanted = json.loads(wanted)
    times = [[] for _ in readers]
    for _ in range(int(turns)):
        for reader, of_reader in zip(readers, times):
            begin = time.process_time()
            data = reader(path)
            of_reader.append(1000 * (time.process_time() - begin))
            rows, total = found(data)
            total_wanted = wanted['json' if who == 'pyarrow' else 'libsvm']
            if rows != wanted['rows'] or abs(total - total_wanted) > 1e-6 * abs(total_wanted):
                sys.exit(f'{who} has found {rows} rows with the sum {total} in {path}, and not {wanted}')
    print(json.dumps({'version': version, 'ms': min(map(statistics.median, times))}))


main()
