# SPDX-License-Identifier: Apache-2.0
"""Every ```cpp block of the documentation is, line by line, a part of a program or test that is compiled."""
import re
import sys

import guard

BLOCK = re.compile(r'^```cpp\n(.*?)^```$', re.M | re.S)


def check(root):
    sources = ['\n' + '\n'.join(guard.lines(root, path)) + '\n'
               for path in guard.files(root, 'examples', 'tests', endings=['.cpp', '.hpp'])]
    for path in guard.files(root, endings=['.md']):
        text = '\n'.join(guard.lines(root, path)) + '\n'
        for block in BLOCK.finditer(text):
            line = text.count('\n', 0, block.start()) + 1
            if not any('\n' + block[1] in source for source in sources):
                yield f'{path}:{line}: no file of examples/ or tests/ holds these lines:\n{block[1]}'


GOOD = {'README.md': 'text\n```cpp\nint a = 1;\n```\n', 'examples/a.cpp': '// Comment.\nint a = 1;\nint b = 2;\n'}
DEFECTS = {
    'code that is in no program': {'README.md': '```cpp\nint c = 1;\n```\n'},
    'code that has changed': {'examples/a.cpp': 'int a = 2;\n'},
    'half a line': {'README.md': '```cpp\na = 1;\n```\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
