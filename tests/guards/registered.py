# SPDX-License-Identifier: Apache-2.0
"""Every source file of tests/, examples/ and benchmarks/ is named in a meson.build, so none is forgotten."""
import sys

import guard

# Those that something else compiles.
ELSEWHERE = ['tests/fuzz', 'tests/consumer']


def check(root):
    builds = {path.parent: (root / path).read_text() for path in guard.files(root, endings=['meson.build'])}
    for path in guard.files(root, 'tests', 'examples', 'benchmarks', endings=['.cpp']):
        if any(str(path).startswith(f'{folder}/') for folder in ELSEWHERE):
            continue
        named = [f"'{path.relative_to(folder).with_suffix(ending)}'" in text
                 for folder, text in builds.items() if folder in path.parents for ending in ('.cpp', '')]
        if not any(named):
            yield f'{path}: no meson.build compiles it'


GOOD = {'tests/core/meson.build': "files('a_test.cpp')\n", 'tests/core/a_test.cpp': ''}
DEFECTS = {'a test that nobody compiles': {'tests/core/b_test.cpp': ''}}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
