# SPDX-License-Identifier: Apache-2.0
"""Starts commands, and ends them when the time of the cell that runs is over."""
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import threading
import time

from counts import Count

# Ends what it starts when this process ends, also where it is killed: nobody else would stop the compilers.
TIED = ['setpriv', '--pdeathsig', 'TERM']
SECONDS_TO_END = 20  # from SIGTERM to SIGKILL


class TimeUp(Exception):
    """A cell's time is over. `started` throws it, before a command begins or when it was ended. `count` has what was counted
    until then."""

    def __init__(self):
        super().__init__()
        self.count = Count()


@contextlib.contextmanager
def counting():
    """A count that is not lost where a cell's time is over within it."""
    count = Count()
    try:
        yield count
    except TimeUp as up:
        up.count += count
        raise


class Deadline:
    """When the cell that runs is to end, by the monotonic clock."""

    def __init__(self):
        self.end_s = None

    def set(self, end_s):
        """None where it has all the time that it needs."""
        self.end_s = end_s

    def left_s(self):
        return None if self.end_s is None else self.end_s - time.monotonic()


deadline = Deadline()
running = set()  # commands that have not ended


def end(process):
    """Ends a command, and what it has started in its session. The caller must go on reading what it says: meson ends its tests
    only then."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(SECONDS_TO_END):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(1)  # then again: meson overlooks a test that it starts just now
                return
            except subprocess.TimeoutExpired:
                pass
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(command, stdout=subprocess.PIPE, **options):
    """A command, whose stdout the block reads to its end unless it is None. It is ended where the block ends by an exception, and
    when the cell's time is over: then it throws TimeUp."""
    left_s = deadline.left_s()
    if left_s is not None and left_s <= 0:
        raise TimeUp
    process = subprocess.Popen(TIED + [str(word) for word in command], text=True, errors='replace', stdin=subprocess.DEVNULL,
                               stdout=stdout, stderr=subprocess.STDOUT if stdout else None, start_new_session=True, **options)
    time_is_up = threading.Event()

    def end_it():
        time_is_up.set()
        end(process)

    timer = None if left_s is None else threading.Timer(left_s, end_it)
    running.add(process)
    try:
        if timer:
            timer.start()
        yield process
        process.wait()
    except BaseException:
        ending = threading.Thread(target=end, args=[process])
        ending.start()
        if process.stdout:
            for _ in process.stdout:
                pass
        ending.join()
        raise
    finally:
        running.discard(process)
        if timer:
            timer.cancel()
        process.wait()
        if process.stdout:
            process.stdout.close()
    if time_is_up.is_set():
        raise TimeUp


def run(command, **options):
    """The exit status of a command, and everything that it said."""
    with started(command, **options) as process:
        said = process.stdout.read()
    return process.returncode, said


def side_by_side(function, arguments):
    """What it gives, or the TimeUp that it throws, for each argument."""
    def result_of(argument):
        try:
            return function(argument)
        except TimeUp as up:
            return up

    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as threads:
        results = [threads.submit(result_of, argument) for argument in arguments]
        try:
            return [result.result() for result in results]
        except BaseException:  # Ctrl-C, of which the threads know nothing
            for process in list(running):
                end(process)
            raise
