# SPDX-License-Identifier: Apache-2.0
"""Stands for the tests of images where there is no stb, and says what they want."""
import sys

SKIPPED = 77

print('skipped: needs stb (libstb-dev)')
sys.exit(SKIPPED)
