# SPDX-License-Identifier: Apache-2.0
"""What tests share that start a program in a folder of its own: both are gone with the test, also where that is told to end, as
meson tells one that takes too long."""
import contextlib
import os
import signal
import subprocess
import sys

SECONDS_TO_END = 0.4  # meson gives us one


def ended_with_us():
    """SIGTERM ends this process as an exception does: by what has been begun."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def run_in_group(command, **options):
    """subprocess.run of a command in a process group of its own, which is ended with this function: by SIGTERM, so that mpirun ends
    its ranks, and by SIGKILL where that is not enough; ranks may then be left until they notice."""
    told = []
    before = signal.signal(signal.SIGTERM, lambda *_: told.append(True))  # later, when there is a process to be ended
    with subprocess.Popen([str(word) for word in command], start_new_session=True, **options) as process:
        try:
            signal.signal(signal.SIGTERM, before)
            if told:
                sys.exit(128 + signal.SIGTERM)
            said, _ = process.communicate()
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait(SECONDS_TO_END)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, said)
