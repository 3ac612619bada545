# SPDX-License-Identifier: Apache-2.0
"""A translation unit that includes every header links with another one like it: nothing in a header lacks its inline."""
import pathlib
import subprocess
import sys
import tempfile

import compiler
import guard


def checker(tool):
    def check(root):
        headers = [header for header, need in compiler.headers(root, guard) if tool.flags_for(need)]
        text = ''.join(f'#include <{header}>\n' for header in headers)
        flags = [*tool.everything, '-I', str(root / 'include')]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # One that is linked twice stands for two of the same text, of which each would take a minute.
            status, said = tool.compile(flags, folder / 'all.cpp', text, folder / 'all.o')
            if status != 0:
                yield f'all headers together do not compile:\n{said}'
                return
            linker = [word for word in tool.core if not word.endswith('ccache')][0]
            done = subprocess.run([linker, '-r', 'all.o', 'all.o', '-o', 'both.o'], cwd=folder, text=True,
                                  capture_output=True, check=False)
            if done.returncode != 0:
                yield f'two translation units do not link:\n{done.stderr}'
    return check


GOOD = {'include/raytrain/core/a.hpp': '#pragma once\ninline int a() { return 1; }\ninline int value = 1;\n'}
DEFECTS = {
    'a function without inline': {'include/raytrain/core/b.hpp': '#pragma once\nint b() { return 1; }\n'},
    'a variable without inline': {'include/raytrain/core/b.hpp': '#pragma once\nint counter = 0;\n'},
    'two headers that disagree': {'include/raytrain/core/b.hpp': '#pragma once\ninline double a() { return 1; }\n'},
}

if __name__ == '__main__':
    own, tool = compiler.split_arguments(sys.argv[1:])
    sys.exit(guard.main(checker(tool), GOOD, DEFECTS, own))
