# SPDX-License-Identifier: Apache-2.0
"""Stands for the tests of LightGBM where there is none, and says what they want."""
import sys

SKIPPED = 77

print('skipped: needs LightGBM, which ./setup tests fetches with pip from PyPI (or -Dlightgbm=PREFIX)')
sys.exit(SKIPPED)
