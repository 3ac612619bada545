# SPDX-License-Identifier: Apache-2.0
"""A test that is told to end, as meson tells one that takes too long, takes along its program, what that has started, and its folder."""
import os
import pathlib
import select
import subprocess
import sys
import tempfile

SECONDS = 20
HERE = pathlib.Path(__file__).parent

with tempfile.TemporaryDirectory() as folder:
    fifo = pathlib.Path(folder, 'open')  # by the program's child, as long as it lives
    os.mkfifo(fifo)
    test = subprocess.Popen([sys.executable, '-B', HERE / 'in_scratch_folder.py', '/bin/sh', '-c', f'(echo $PWD; cat {folder}/open) >{folder}/said & wait'],
                            env={**os.environ, 'TMPDIR': folder})
    with open(fifo, 'wb', buffering=0) as pipe:  # opens when the child reads
        test.terminate()
        status = test.wait()
        ended = select.poll()
        ended.register(pipe, select.POLLERR)
        if not ended.poll(1000 * SECONDS):
            sys.exit('what the program has started goes on')
    scratch = pathlib.Path(folder, 'said').read_text().strip()
    if status == 0 or not scratch or os.path.exists(scratch):
        sys.exit(f'the test has ended with status {status}, and its folder {scratch!r} is still there')
