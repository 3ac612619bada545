# SPDX-License-Identifier: Apache-2.0
"""An example that gets other data does not go on with a run that has seen the former, but makes one of its own:

  runs_apart.py PROGRAM 'OPTIONS' 'OPTIONS'...
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

BREAST_CANCER = pathlib.Path(__file__).parents[2] / 'build' / 'datasets' / 'breast_cancer.csv'
SKIPPED = 77

program, *cases = sys.argv[1:]
data = ['--data', BREAST_CANCER] if pathlib.Path(program).name == 'breast_cancer' else []
if data and not BREAST_CANCER.exists():
    print(f'needs {BREAST_CANCER}, which ./examples/run breast_cancer fetches')
    sys.exit(SKIPPED)
with tempfile.TemporaryDirectory() as folder:
    for case in cases:
        subprocess.run([os.path.abspath(program), *data, *shlex.split(case)], cwd=folder, stdin=subprocess.DEVNULL, check=True)
    runs = [path.parent.name for path in pathlib.Path(folder, 'runs').glob('*/run.json')]
    if len(runs) != len(cases):
        sys.exit(f'{cases} have made the runs {runs}')
