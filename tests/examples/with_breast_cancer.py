# SPDX-License-Identifier: Apache-2.0
"""Runs the breast cancer example in an empty folder, on the data that set-up has fetched, and looks at what it leaves:

  with_breast_cancer.py COMMAND...
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us, run_in_group

DATA = pathlib.Path(__file__).parents[2] / 'build' / 'datasets' / 'breast_cancer.csv'
SKIPPED = 77

if not DATA.exists():
    print(f'needs {DATA}, which ./examples/run breast_cancer fetches')
    sys.exit(SKIPPED)
command = [os.path.abspath(word) if os.sep in word else word for word in sys.argv[1:]]
ended_with_us()


def run(folder):
    done = run_in_group([*command, '--data', DATA, '--model', 'model.json'], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    run(folder)
    text = pathlib.Path(folder, 'model.json').read_text()
    if 'lightgbm' in command:
        trees = re.findall('^Tree=', text, re.M)
        names = re.search('^feature_names=(.*)$', text, re.M)[1].replace('_', ' ')
    else:
        learner = json.loads(text)['learner']
        trees, names = learner['gradient_booster']['model']['trees'], learner['feature_names']
    if len(trees) != 20 or 'mean radius' not in names:
        sys.exit(f'the model has {len(trees)} trees and the features {names}')
    if '--rounds N' not in run(folder):
        sys.exit('a start that finds the run finished does not say how to boost it further')
