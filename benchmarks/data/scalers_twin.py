# SPDX-License-Identifier: Apache-2.0
"""CPU time in which scikit-learn's scalers learn from the matrix that scalers.cpp has written:  scalers_twin.py FILE TURNS"""
import json
import statistics
import sys
import time

import numpy
import sklearn
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler


def time_ms(work):
    begin = time.process_time()
    work()
    return 1000 * (time.process_time() - begin)


def main():
    path, turns = sys.argv[1:]
    matrix = numpy.load(path)
    scalers = {'standard': StandardScaler(), 'min_max': MinMaxScaler(), 'robust': RobustScaler()}
    times = {name: [] for name in scalers}
    for _ in range(int(turns)):
        for name, scaler in scalers.items():
            times[name].append(time_ms(lambda fitted=scaler: fitted.fit(matrix)))
    learnt = [(scalers['standard'].mean_, matrix.mean(axis=0, dtype=float)), (scalers['min_max'].data_min_, matrix.min(axis=0)),
              ((matrix < scalers['robust'].center_).mean(axis=0), 0.5)]
    if not all(numpy.allclose(found, wanted, rtol=1e-4, atol=1e-4) for found, wanted in learnt):
        sys.exit(f'scikit-learn has learnt {learnt}')
    print(json.dumps({'version': sklearn.__version__, **{f'{name}_ms': statistics.median(each) for name, each in times.items()}}))


main()
