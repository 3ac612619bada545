# SPDX-License-Identifier: Apache-2.0
"""The C++ files look as .clang-format says; skipped where clang-format is not the version it was written for."""
import re
import subprocess
import sys

import guard

VERSION = '14'
SKIPPED = 77


def check(root):
    paths = [str(path) for path in guard.files(root, endings=['.hpp', '.cpp', '.cu'])]
    done = subprocess.run(['clang-format', '--dry-run', '-Werror', *paths], cwd=root, text=True,
                          capture_output=True, check=False)
    for path in dict.fromkeys(re.findall(r'^(.*?):\d+:\d+: error', done.stderr, re.M)):
        yield f'clang-format -i {path}'
    if done.returncode != 0 and not done.stderr:
        yield f'clang-format: exit status {done.returncode}'


STYLE = (guard.ROOT / '.clang-format').read_text()
GOOD = {'.clang-format': STYLE, 'a.hpp': 'inline int a() { return 1; }\n'}
DEFECTS = {'a header with other spacing': {'b.hpp': 'inline int  b( ) {return 1;}\n'}}

if __name__ == '__main__':
    try:
        version = subprocess.check_output(['clang-format', '--version'], text=True)
    except FileNotFoundError:
        version = 'no clang-format'
    if not re.search(rf'version {VERSION}\.', version):
        print(f'skipped: needs clang-format {VERSION}, there is {version.strip()}')
        sys.exit(SKIPPED)
    sys.exit(guard.main(check, GOOD, DEFECTS))
