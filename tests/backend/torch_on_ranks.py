# SPDX-License-Identifier: Apache-2.0
"""A network that is trained on ranks has the bits of one that is trained on as many threads:

  torch_on_ranks.py FASHION_MNIST MPIRUN ARGUMENT...
"""
import json
import pathlib
import subprocess
import sys
import tempfile

WORKERS = 4
program, *mpirun = sys.argv[1:]


def model_of(storage, *start):
    """Size and digest of the last checkpoint's model."""
    subprocess.run([*start, '--storage', storage, '--epochs', '2', '--samples', '4000'], stdin=subprocess.DEVNULL,
                   check=True)
    manifest = storage / 'fashion_mnist_mlp' / 'checkpoints' / 'checkpoint_000002' / 'manifest.json'
    files = json.loads(manifest.read_text())['files']
    return files['model.pt']


with tempfile.TemporaryDirectory() as folder:
    threads = model_of(pathlib.Path(folder) / 'threads', program, '--workers', str(WORKERS))
    ranks = model_of(pathlib.Path(folder) / 'ranks', *mpirun, '-n', str(WORKERS), program)
    if threads != ranks:
        sys.exit(f'threads: {threads}\nranks:   {ranks}')
