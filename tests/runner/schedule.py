# SPDX-License-Identifier: Apache-2.0
"""Runs a cell until its time is over, and lets another one be the first each day."""
import time

from counts import Count, left_out, say
from processes import TimeUp, deadline


def run_cell(name, function, *arguments, end_s=None):
    """Runs a cell until `end_s` of the monotonic clock. It is ended then, and named as not tested; what has passed and failed
    before is counted."""
    start = time.monotonic()
    if end_s is not None and end_s <= start:
        left_out(name, 'there was no time left for it (--minutes)')
        return Count()
    how = ''
    deadline.set(end_s)
    try:
        count = function(*arguments)
    except RuntimeError as problem:
        say(f'=== {name}: {problem}')
        count = Count(failed=1)
    except TimeUp as up:
        left_out(name, 'its time was over before its end (--minutes)')
        count, how = up.count, ' until its time was over'
    finally:
        deadline.set(None)
    say(f'{name}{how}: {count}, {time.monotonic() - start:.0f} s')
    return count


def in_turn(cells, day):
    """The same, beginning with another one each day: those for which a slow machine has no time today come first another day."""
    names = list(cells)
    first = day % len(names)
    return {name: cells[name] for name in names[first:] + names[:first]}
