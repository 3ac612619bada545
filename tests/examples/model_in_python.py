# SPDX-License-Identifier: Apache-2.0
"""A model that the breast cancer example has stored predicts the same in XGBoost's Python package:

  model_in_python.py BREAST_CANCER

The package is Python's own, or that of the cell "current XGBoost".
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

BUILD = pathlib.Path(__file__).parents[2] / 'build'
DATA = BUILD / 'datasets' / 'breast_cancer.csv'
SKIPPED = 77

sys.path.append(str(BUILD / 'xgboost-current' / 'site'))
try:
    import numpy
    import xgboost
except ImportError as missing:
    print(f'needs the Python package {missing.name}')
    sys.exit(SKIPPED)
if not DATA.exists():
    print(f'needs {DATA}, which ./examples/run breast_cancer fetches')
    sys.exit(SKIPPED)


def version_of(text):
    return tuple(int(number) for number in text.split('.')[:2])


program = os.path.abspath(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    model, table = pathlib.Path(folder, 'model.json'), pathlib.Path(folder, 'predictions.csv')
    subprocess.run([program, '--data', DATA, '--model', model, '--predictions', table], cwd=folder, check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    stored = '.'.join(str(number) for number in json.loads(model.read_text())['version'])
    if version_of(stored) > version_of(xgboost.__version__):
        print(f'needs XGBoost {stored} in Python (there is {xgboost.__version__})')
        sys.exit(SKIPPED)
    names = table.read_text().splitlines()[0].split(',')
    rows = numpy.loadtxt(table, delimiter=',', skiprows=1)
    booster = xgboost.Booster(model_file=model)
    # Refuses other names or another order than the model's.
    there = booster.predict(xgboost.DMatrix(rows[:, :-1], feature_names=names[:-1]))
    furthest = abs(there - rows[:, -1]).max()
    print(f'model of {stored} in {xgboost.__version__}: {len(rows)} rows, predictions differ by {furthest:.2g} at most')
    if names[-1] != 'prediction' or len(rows) != 171 or not furthest < 1e-6 or there.std() < 0.1:
        sys.exit(f'{names[-1]}: {rows[:, -1]}\nPython: {there}')
