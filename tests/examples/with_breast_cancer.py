# SPDX-License-Identifier: Apache-2.0
"""Runs the breast cancer example in an empty folder, on the data that set-up has fetched, and looks at what it leaves:

  with_breast_cancer.py COMMAND...
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).parents[2] / 'build' / 'datasets' / 'breast_cancer.csv'
SKIPPED = 77

if not DATA.exists():
    print(f'needs {DATA}, which ./examples/run breast_cancer fetches')
    sys.exit(SKIPPED)
command = [os.path.abspath(word) if os.sep in word else word for word in sys.argv[1:]]
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([*command, '--data', DATA, '--model', 'model.json'], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(done.returncode)
    model = json.loads(pathlib.Path(folder, 'model.json').read_text())
    trees = model['learner']['gradient_booster']['model']['trees']
    if len(trees) != 20 or 'mean radius' not in model['learner']['feature_names']:
        sys.exit(f'the model has {len(trees)} trees and the features {model["learner"]["feature_names"]}')
