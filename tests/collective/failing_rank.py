# SPDX-License-Identifier: Apache-2.0
"""A test that fails on a rank other than 0 fails the job, and what it says is printed under the rank's name.

  failing_rank.py PROGRAM MPIRUN ARGUMENT...
"""
import subprocess
import sys

program, *mpirun = sys.argv[1:]
done = subprocess.run([*mpirun, '-n', '2', program, '--no-skip', '--test-case=planted: *'], text=True,
                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
# What the planted failure says would be counted as one of this test's own.
if done.returncode == 0:
    sys.exit(f'the job succeeds\n{done.stdout}')
if '=== rank 1 of 2:\n' not in done.stdout or 'CHECK( me() != ranks() - 1 ) is NOT correct' not in done.stdout:
    sys.exit(f'what rank 1 says is missing\n{done.stdout}')
