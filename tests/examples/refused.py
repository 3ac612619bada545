# SPDX-License-Identifier: Apache-2.0
"""An example refuses options that would do nothing, and names one of them, before it trains:

  refused.py PROGRAM 'OPTIONS'...
"""
import os
import shlex
import subprocess
import sys
import tempfile

program, *cases = sys.argv[1:]
for case in cases:
    options = shlex.split(case)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([os.path.abspath(program), *options], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False)
        named = any(option in done.stderr for option in options if option.startswith('--'))
        if done.returncode <= 0 or not named or os.path.exists(os.path.join(folder, 'runs')):
            sys.exit(f'{case} is not refused: exit status {done.returncode}\n{done.stderr}')
