# SPDX-License-Identifier: Apache-2.0
"""Runs a program in an empty folder of its own, which goes away with it:  in_scratch_folder.py PROGRAM ARGS..."""
import os
import sys
import tempfile

from ended import ended_with_us, run_in_group

ended_with_us()
with tempfile.TemporaryDirectory() as folder:
    sys.exit(run_in_group([os.path.abspath(sys.argv[1]), *sys.argv[2:]], cwd=folder).returncode)
