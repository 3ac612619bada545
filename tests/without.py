# SPDX-License-Identifier: Apache-2.0
"""Stands for tests of a library that is not there, and says what they want:  without.py WHAT"""
import sys

SKIPPED = 77

print(f'skipped: needs {sys.argv[1]}')
sys.exit(SKIPPED)
