# SPDX-License-Identifier: Apache-2.0
"""A translation unit that includes every header links with another one like it, so nothing in a header lacks its inline,
and nothing in a declaration defines what the library does."""
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
            linker = [word for word in tool.core if not word.endswith('ccache')][0]

            def linked(how):
                what, macros = how
                object_file = folder / f'{what}.o'
                status, said = tool.compile([*flags, *macros], folder / f'{what}.cpp', text, object_file)
                if status != 0:
                    return f'all headers {what} do not compile:\n{said}'
                # One that is linked twice stands for two of the same text, of which each would take a minute.
                done = subprocess.run([linker, '-r', object_file, object_file, '-o', folder / f'{what} twice.o'], text=True,
                                      capture_output=True, check=False)
                return f'two translation units {what} do not link:\n{done.stderr}' if done.returncode != 0 else None

            ways = {'alone': [], 'with the library': ['-DRAYTRAIN_COMPILED', '-DRAYTRAIN_COMPILED_TORCH']}
            yield from filter(None, compiler.each(linked, ways.items()))
    return check


GOOD = {'include/raytrain/core/a.hpp': '#pragma once\ninline int a() { return 1; }\ninline int value = 1;\n'}
DEFECTS = {
    'a function of the library without inline': {
        'include/raytrain/core/b.hpp': '#pragma once\n#ifdef RAYTRAIN_COMPILED\nint b() { return 1; }\n#endif\n'},
    'a function without inline': {'include/raytrain/core/b.hpp': '#pragma once\nint b() { return 1; }\n'},
    'a variable without inline': {'include/raytrain/core/b.hpp': '#pragma once\nint counter = 0;\n'},
    'two headers that disagree': {'include/raytrain/core/b.hpp': '#pragma once\ninline double a() { return 1; }\n'},
}

if __name__ == '__main__':
    own, tool = compiler.split_arguments(sys.argv[1:])
    sys.exit(guard.main(checker(tool), GOOD, DEFECTS, own))
