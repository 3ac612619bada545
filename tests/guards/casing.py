# SPDX-License-Identifier: Apache-2.0
"""The names in the headers are cased as .clang-tidy says; needs clang-tidy-16.

  casing.py -- clang++ FLAG... [--torch FLAG...] [--xgboost FLAG...] [--mpi FLAG...] [--nccl FLAG...] [--stb FLAG...]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import compiler
import guard

TOOL = 'clang-tidy-16'
SKIPPED = 77
# clang-tidy 16 has no option for concepts.
SMALL_CONCEPT = re.compile(r'^\s*concept\s+(?![A-Z][A-Za-z0-9]*\s)(\w+)', re.M)


def checker(tool):
    def check(root):
        headers = [header for header, need in compiler.headers(root, guard) if tool.flags_for(need)]
        for header in headers:
            for name in SMALL_CONCEPT.findall((root / 'include' / header).read_text()):
                yield f'{header}: concept {name}: concepts are PascalCase'
        flags = [word for word in tool.everything[1:] if not word.startswith('-W')]
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / 'every_header.cpp'
            source.write_text(''.join(f'#include <{header}>\n' for header in headers))
            done = subprocess.run([TOOL, '--quiet', f'--config-file={guard.ROOT / ".clang-tidy"}', str(source), '--',
                                   *flags, '-I', str(root / 'include')], text=True, capture_output=True, check=False)
        for path, what in re.findall(r'^(.*?:\d+):\d+: error: (.*)$', done.stdout, re.M):
            yield f'{path}: {what}'
        if done.returncode != 0 and ' error: ' not in done.stdout:
            yield f'{TOOL}: exit status {done.returncode}\n{done.stdout}{done.stderr}'
    return check


GOOD = {'include/raytrain/core/a.hpp': '#pragma once\nnamespace raytrain {\nclass Rank {\n public:\n'
                                       '  int world_size{};\n\n private:\n  int value_{};\n};\n}\n'}
DEFECTS = {
    'a type in small letters': {'include/raytrain/core/b.hpp': '#pragma once\nstruct world_size {};\n'},
    'a function in camel case': {'include/raytrain/core/b.hpp': '#pragma once\ninline void doIt() {}\n'},
    'a private member without its _': {'include/raytrain/core/b.hpp': '#pragma once\nclass B {\n int value;\n};\n'},
    'a macro without RAYTRAIN_': {'include/raytrain/core/b.hpp': '#pragma once\n#define ONE 1\n'},
    'a concept in small letters': {'include/raytrain/core/b.hpp': '#pragma once\ntemplate <class T>\nconcept small = true;\n'},
}

if __name__ == '__main__':
    if not shutil.which(TOOL):
        print(f'skipped: needs {TOOL}')
        sys.exit(SKIPPED)
    own, given = compiler.split_arguments(sys.argv[1:])
    sys.exit(guard.main(checker(given), GOOD, DEFECTS, own))
