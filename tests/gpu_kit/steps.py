# SPDX-License-Identifier: Apache-2.0
"""Commands that each have a time limit, one log of what they print, and one table of what came out."""
import dataclasses
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time

WIDEST = 120  # characters of a result in the table; the log has all of it
NOT_FOUND = 127  # as a shell has it


@dataclasses.dataclass
class Ended:
    """How a command ended. A status below 0 is a signal's; None: it was ended at its limit, or not begun for want of time."""
    status: int | None
    output: str
    seconds: float

    def __str__(self):
        if self.status is None:
            return f'no end after {self.seconds:.0f} s' if self.seconds >= 1 else 'no time was left for it'
        return f'signal {signal.Signals(-self.status).name}' if self.status < 0 else f'exit status {self.status}'


@dataclasses.dataclass
class Row:
    name: str
    outcome: str  # passed, failed, skipped or measured
    detail: str
    seconds: float


class Steps:
    """Threads: all members from any thread."""

    def __init__(self, out, limit_s):
        out.mkdir(parents=True, exist_ok=True)
        self.table_file = out / 'table.txt'
        self.log = (out / 'log.txt').open('w', encoding='utf-8', errors='replace')
        self.begin = time.monotonic()
        self.limit_s = limit_s
        self.heading = []
        self.rows = []
        self.running = set()
        self.stopped = False
        self.lock = threading.Lock()

    def left_s(self):
        return self.begin + self.limit_s - time.monotonic()

    def command(self, words, limit_s, folder):
        """Runs a command in a folder, for at most so long and not beyond the limit of all steps."""
        begin = time.monotonic()
        status = None
        # A file, since a pipe stays open for as long as anything that the command has left behind.
        with tempfile.TemporaryFile() as printed:
            try:
                process = self.start(words, folder, printed)
            except OSError as error:
                process, status = None, NOT_FOUND
                printed.write(f'{error}\n'.encode())
            if process:
                try:
                    status = process.wait(max(0, min(limit_s, self.left_s())))
                except subprocess.TimeoutExpired:
                    pass
                with self.lock:
                    end_group(process)
                    self.running.discard(process)
                process.wait()
            printed.seek(0)
            output = printed.read().decode(errors='replace')
        ended = Ended(status, output, time.monotonic() - begin)
        with self.lock:
            self.log.write(f'=== {time.monotonic() - self.begin:.1f} s: {ended}, {ended.seconds:.1f} s: {shlex.join(map(str, words))}\n{output}\n')
            self.log.flush()
        return ended

    def start(self, words, folder, printed):
        with self.lock:
            if self.stopped or self.left_s() <= 0:
                return None
            process = subprocess.Popen(list(map(str, words)), cwd=folder, stdin=subprocess.DEVNULL, stdout=printed,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            self.running.add(process)
            return process

    def stop(self):
        """Ends what runs, begins nothing more, and writes the table also where it has no row."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                end_group(process)
                process.wait()
            self.table_file.write_text(self.table(), encoding='utf-8')

    def add(self, row):
        """Whoever ends this process finds the table as far as it had come."""
        with self.lock:
            self.rows.append(row)
            self.table_file.write_text(self.table(), encoding='utf-8')
            print(line_of(row, 0, 0), flush=True)

    def count(self, outcome):
        return sum(row.outcome == outcome for row in self.rows)

    def table(self):
        names = max((len(row.name) for row in self.rows), default=0)
        results = max((len(result_of(row)) for row in self.rows), default=0)
        counts = ', '.join(f'{self.count(outcome)} {outcome}' for outcome in ('passed', 'failed', 'skipped', 'measured'))
        return '\n'.join([*self.heading, '', f'{"name":<{names}}  {"result":<{results}}  seconds',
                          *(line_of(row, names, results) for row in self.rows), '', f'{counts}, {time.monotonic() - self.begin:.0f} s', ''])


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def result_of(row):
    text = row.detail if row.outcome == 'measured' else f'{row.outcome}: {row.detail}' if row.detail else row.outcome
    return text if len(text) <= WIDEST else f'{text[:WIDEST - 3]}...'


def line_of(row, names, results):
    return f'{row.name:<{names}}  {result_of(row):<{results}}  {row.seconds:7.1f}'


def last_line(text):
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), '')
