# SPDX-License-Identifier: Apache-2.0
"""Runs a program in an empty folder of its own, which goes away with it:  in_scratch_folder.py PROGRAM ARGS..."""
import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    sys.exit(subprocess.run([os.path.abspath(sys.argv[1]), *sys.argv[2:]], cwd=folder, check=False).returncode)
