# SPDX-License-Identifier: Apache-2.0
"""An example that is told to use a GPU where it sees none says why there is none and how to train without, and leaves no run:

  without_gpu.py PROGRAM [OPTION...]
"""
import os
import subprocess
import sys
import tempfile

program, *options = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([os.path.abspath(program), *options, '--gpus', '1'], cwd=folder, env={**os.environ, 'CUDA_VISIBLE_DEVICES': ''}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False)
    says_why = 'ScalingConfig::use_gpu: is set, and ' in done.stderr and 'leave use_gpu out to train on the CPU' in done.stderr
    if done.returncode != 1 or not says_why or os.path.exists(os.path.join(folder, 'runs')):
        sys.exit(f'exit status {done.returncode}, in the folder {os.listdir(folder)}\n{done.stderr}')
