# SPDX-License-Identifier: Apache-2.0
import time


def end_together(started):
    """The exit statuses of processes that wait for each other, all of them ended: where one fails, the others are killed."""
    try:
        while None in (statuses := [process.poll() for process in started]) and not any(statuses):
            time.sleep(0.01)
    finally:
        for process in started:
            process.kill()
    return [process.wait() for process in started]
