# SPDX-License-Identifier: Apache-2.0
"""Trains by out_of_core on CSV files that take more than the memory that it may keep:

  out_of_core_csv.py PROGRAM [SEED]
"""
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

FILES, FILE_BYTES = 6, 100 << 20
COLUMNS = 16

program = sys.argv[1]
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
print(f'seed {seed}', flush=True)
draw = random.Random(seed)
lines = []
for _ in range(10_000):
    values = [draw.gauss(0, 1) for _ in range(COLUMNS)]
    lines.append(','.join(f'{value:.6f}' for value in values) + f',{int(sum(values) > 0)}\n')
piece = ''.join(lines)
with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    for number in range(FILES):
        with open(folder / f'rows{number}.csv', 'w') as file:
            file.write(','.join([*(f'x{column}' for column in range(COLUMNS)), 'label']) + '\n')
            while file.tell() < FILE_BYTES:
                file.write(piece)
    done = subprocess.run([program, '--csv', folder / 'rows*.csv', '--memory', '200M', '--workers', '2', '--storage', folder / 'runs',
                           '--folder', folder / 'prepared'], cwd=folder, check=False)
    sys.exit(done.returncode)
