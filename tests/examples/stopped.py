# SPDX-License-Identifier: Apache-2.0
"""An example that gets SIGTERM as its training begins returns 75, and goes on when it is started again:

  stopped.py [--anew] PROGRAM ARGUMENTS...

With --anew it returns 130, as it begins anew then.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

LIMIT_S = 60
TRIES = 20  # of a training that is so short that it may be over first

anew = sys.argv[1] == '--anew'
program, *arguments = sys.argv[1 + anew:]
command = [os.path.abspath(program), *arguments]
STATUS = 130 if anew else 75


def start_and_stop(folder):
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
    try:
        # fit() has come so far when the signal has a handler.
        status = pathlib.Path('/proc', str(process.pid), 'status')
        until = time.monotonic() + LIMIT_S
        while not int(status.read_text().split('SigCgt:')[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1:
            if process.poll() is not None or time.monotonic() > until:
                return process.returncode
        process.send_signal(signal.SIGTERM)
        return process.wait(LIMIT_S)
    finally:
        process.kill()
        process.wait()


for _ in range(TRIES):
    with tempfile.TemporaryDirectory() as folder:
        code = start_and_stop(folder)
        if code == 0:
            continue
        if code != STATUS:
            sys.exit(f'the example was stopped, and returned {code}')
        code = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False).returncode
        sys.exit(f'the example has gone on after a stop, and returned {code}' if code != 0 else 0)
sys.exit(f'the example was over before the signal came, or does not tell that it was stopped, {TRIES} times')
