# SPDX-License-Identifier: Apache-2.0
"""Every ```cpp block of the documentation is, line by line, a part of a program or test that is compiled, and every
```cmake block of a CMakeLists.txt that is built, however far it is indented there."""
import re
import sys

import guard

BLOCK = re.compile(r'^```(cpp|cmake)\n(.*?)^```$', re.M | re.S)


def joined(lines, kind):
    return '\n' + '\n'.join(line.strip() if kind == 'cmake' else line for line in lines) + '\n'


def check(root):
    sources = {kind: [joined(guard.lines(root, path), kind) for path in guard.files(root, 'examples', 'tests', endings=endings)]
               for kind, endings in {'cpp': ['.cpp', '.hpp'], 'cmake': ['CMakeLists.txt']}.items()}
    for path in guard.files(root, endings=['.md']):
        text = '\n'.join(guard.lines(root, path)) + '\n'
        for block in BLOCK.finditer(text):
            line = text.count('\n', 0, block.start()) + 1
            if not any('\n' + block[2] in source for source in sources[block[1]]):
                yield f'{path}:{line}: no file of examples/ or tests/ holds these lines:\n{block[2]}'


GOOD = {'README.md': 'text\n```cpp\nint a = 1;\n```\n```cmake\nproject(a)\n```\n', 'tests/CMakeLists.txt': '  project(a)\n',
        'examples/a.cpp': '// Comment.\nint a = 1;\nint b = 2;\n'}
DEFECTS = {
    'code that is in no program': {'README.md': '```cpp\nint c = 1;\n```\n'},
    'CMake that nobody builds': {'README.md': '```cmake\nproject(b)\n```\n'},
    'code that has changed': {'examples/a.cpp': 'int a = 2;\n'},
    'half a line': {'README.md': '```cpp\na = 1;\n```\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
