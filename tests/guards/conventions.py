# SPDX-License-Identifier: Apache-2.0
"""What every file keeps to: licence line, #pragma once, length, names, nothing left undone, no sleeping test."""
import re
import sys

import guard

LONGEST = 500
UNDONE = re.compile(r'\b(TO' r'DO|FIX' r'ME|HA' r'CK|XX' r'X)\b')
SLEEP = re.compile(r'\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(')
CATCH_ALL = re.compile(r'(^|/)(utils?|common|misc|helpers?|stuff)(\.|/)', re.I)
LICENCE = 'SPDX-License-Identifier: Apache-2.0'
CODE = ['.hpp', '.cpp', '.cu', '.py']


def check(root):
    for path in guard.files(root):
        if CATCH_ALL.search(str(path)):
            yield f'{path}: a name that says nothing; name the file after its topic'
    for path in guard.files(root, endings=CODE):
        text = guard.lines(root, path)
        # An example begins with what it teaches; LICENSE covers it all the same.
        if path.parts[0] != 'examples' and not any(LICENCE in line for line in text[:3]):
            yield f'{path}: lacks the line "{LICENCE}"'
        for number, line in enumerate(text, 1):
            if UNDONE.search(line):
                yield f'{path}:{number}: left undone: {line.strip()}'
            if path.parts[0] == 'tests' and path.suffix in ('.cpp', '.hpp') and SLEEP.search(line):
                yield f'{path}:{number}: a test that sleeps; move a manual clock or wait for what it waits for'
        if path.suffix == '.hpp':
            # A precompiled header is a main file, in which the compiler warns of it.
            if '#pragma once' not in text and not path.stem.endswith('_pch'):
                yield f'{path}: lacks #pragma once'
            if len(text) > LONGEST:
                yield f'{path}: {len(text)} lines; split it (at most {LONGEST})'
        if path.suffix in ('.hpp', '.cpp') and not re.fullmatch(r'[a-z0-9_]+(-inl)?', path.stem):
            yield f'{path}: file names are snake_case'


HEADER = f'// {LICENCE}\n#pragma once\n'
GOOD = {'include/raytrain/core/identifiers.hpp': HEADER, 'tests/core/rank_test.cpp': f'// {LICENCE}\n', 'README.md': 'text\n'}
DEFECTS = {
    'no licence': {'include/raytrain/core/a.hpp': '#pragma once\n'},
    'no #pragma once': {'include/raytrain/core/a.hpp': f'// {LICENCE}\n'},
    'an unfinished header': {'include/raytrain/core/a.hpp': HEADER + '// TO' 'DO: finish\n'},
    'a long header': {'include/raytrain/core/a.hpp': HEADER + '//\n' * LONGEST},
    'a catch-all folder': {'include/raytrain/utils/a.hpp': HEADER},
    'a catch-all file': {'include/raytrain/core/helpers.hpp': HEADER},
    'a file name in capitals': {'include/raytrain/core/Rank.hpp': HEADER},
    'a test that sleeps': {'tests/core/a_test.cpp': f'// {LICENCE}\nstd::this_thread::sleep_for(1s);\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
