# SPDX-License-Identifier: Apache-2.0
"""When a rank is lost and the others go on, nothing is written to what they have given to an operation that has failed.

  lost_rank.py PROGRAM MPIRUN
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / 'launch'))
from job import Job, ask_for_ulfm  # noqa: E402

program, mpirun = sys.argv[1:]
job = Job(mpirun, *ask_for_ulfm(mpirun).split(), '-n', '3', program)
job.expect_all_say(2, 'its memory is free', 'and 0 elements have changed')
