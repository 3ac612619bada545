# SPDX-License-Identifier: Apache-2.0
"""A job that a test starts, and what it expects of it."""
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time

SKIPPED = 77

# What runs in the background of a shell, or by nohup, ignores some of these, and so would what it starts.
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what a test has begun ends with it


def wait_for_end(pid, limit):
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([process], [], [], max(limit, 0))
    os.close(process)


class Output:
    """What the processes of a job said, and how it ended."""

    def __init__(self, text, status, seconds):
        self.text, self.status, self.seconds = text, status, seconds
        self.lines = text.replace('\0', '').splitlines()  # prterun leaves one before a line

    def lines_with(self, beginning):
        return [line for line in self.lines if line.startswith(beginning)]

    def expect(self, what, holds):
        if not holds:
            sys.exit(f'not so: {what}\nstatus {self.status} after {self.seconds:.1f} s\n{self.text}')

    def expect_all_say(self, ranks, beginning, *parts):
        """One line of each rank, the same on all."""
        lines = self.lines_with(beginning)
        self.expect(f'{ranks} ranks say "{beginning}"', len(lines) == ranks)
        self.expect('they say the same', len(set(lines)) == 1)
        for part in parts:
            self.expect(f'they say "{part}"', part in lines[0])
        return lines[0]

    def expect_nobody_left(self, limit=0):
        """At most so many seconds from now."""
        end = time.monotonic() + limit
        for pid in re.findall(r'^rank .* process (\d+)$', self.text, re.MULTILINE):
            wait_for_end(int(pid), end - time.monotonic())
            path = pathlib.Path(f'/proc/{pid}/stat')
            state = path.read_text().rpartition(') ')[2][0] if path.exists() else 'gone'
            self.expect(f'process {pid} has ended (it is {state})', state in ('gone', 'Z', 'X'))


class WatchedJob(Output):
    """A job during which something is done: each step waits for so many lines that begin so, then calls
    its function with the process and with what was said until then."""

    def __init__(self, *command, steps):
        start = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        guard = threading.Timer(100, process.kill)
        guard.start()
        said = ''
        for beginning, count, act in steps:
            while count > 0:
                line = process.stdout.readline()
                said += line
                if not line:
                    break
                count -= line.replace('\0', '').startswith(beginning)  # prterun leaves one before a line
            act(process, said)
            self.last_step = time.monotonic()
        said += process.stdout.read()
        process.wait()
        guard.cancel()
        self.seconds_since_step = time.monotonic() - self.last_step
        super().__init__(said, process.returncode, time.monotonic() - start)


class Job(Output):
    def __init__(self, *command, **options):
        start = time.monotonic()
        done = subprocess.run([str(word) for word in command], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100, check=False, **options)
        super().__init__(done.stdout, done.returncode, time.monotonic() - start)


def ask_for_option(mpirun, option):
    """The option; where mpirun does not know it the test is skipped."""
    if subprocess.run([mpirun, *option.split(), '-n', '1', 'true'], capture_output=True, check=False).returncode != 0:
        print(f'skipped: this mpirun knows no {option}')
        sys.exit(SKIPPED)
    return option


def ask_for_ulfm(mpirun):
    """What has it start a job that goes on without ranks that are lost."""
    return ask_for_option(mpirun, '--with-ft ulfm')


def job_on_hosts(places, mpirun, *command, **environment):
    """What hosts.py runs there; where there can be no hosts the test is skipped."""
    hosts = pathlib.Path(__file__).parent.parent / 'collective' / 'hosts.py'
    job = Job(sys.executable, '-B', hosts, places, mpirun, *command, env={**os.environ, **environment})
    if job.status == SKIPPED:
        print(job.text.strip())
        sys.exit(SKIPPED)
    return job
