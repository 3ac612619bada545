# SPDX-License-Identifier: Apache-2.0
"""The C++ files look as .clang-format says; skipped where clang-format is not the version it was written for."""
import re
import subprocess
import sys

import guard

VERSION = '14'
# The system's, or what set-up has fetched where that is of another version.
TOOLS = ['clang-format', guard.ROOT / 'build/clang-format/clang_format/data/bin/clang-format']
SKIPPED = 77


def tool():
    """The clang-format to be used, and what there is when there is none."""
    there = []
    for name in TOOLS:
        try:
            there.append(subprocess.check_output([name, '--version'], text=True).strip())
        except (FileNotFoundError, PermissionError):
            continue
        if re.search(rf'version {VERSION}\.', there[-1]):
            return name, there
    return None, there


def check(root):
    paths = [str(path) for path in guard.files(root, endings=['.hpp', '.cpp', '.cu'])]
    done = subprocess.run([tool()[0], '--dry-run', '-Werror', *paths], cwd=root, text=True,
                          capture_output=True, check=False)
    for path in dict.fromkeys(re.findall(r'^(.*?):\d+:\d+: error', done.stderr, re.M)):
        yield f'clang-format -i {path}'
    if done.returncode != 0 and not done.stderr:
        yield f'clang-format: exit status {done.returncode}'


STYLE = (guard.ROOT / '.clang-format').read_text()
GOOD = {'.clang-format': STYLE, 'a.hpp': 'inline int a() { return 1; }\n'}
DEFECTS = {'a header with other spacing': {'b.hpp': 'inline int  b( ) {return 1;}\n'}}

if __name__ == '__main__':
    found, others = tool()
    if not found:
        print(f'skipped: needs clang-format {VERSION}, there is {", ".join(others) or "none"}')
        sys.exit(SKIPPED)
    sys.exit(guard.main(check, GOOD, DEFECTS))
