# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, and twice in a row, without a warning, beside the compiled library; and what it defines
apart does, with nothing of what other headers define apart. What needs LibTorch, XGBoost, MPI or NCCL does where that is.

Then definitions that follow their header, as without the library, can only miss what is read later: so none includes, from
whichever header a program begins with, one of which the declarations are not over."""
import pathlib
import re
import sys
import tempfile

import compiler
import guard

INCLUDE = re.compile(r'^#include <([^>]+)>', re.M)
TORCH_NAME = re.compile(r'\b(torch|at|c10)::')
TORCH_HEADER = re.compile(r'(torch|ATen|c10)/')

COMPILED = ['-DRAYTRAIN_COMPILED', '-DRAYTRAIN_COMPILED_TORCH']


def checker(tool):
    def check(root):
        headers = compiler.headers(root, guard)
        text = {str(path.relative_to('include')): (root / path).read_text() for path in guard.files(root, 'include', endings=['.hpp'])}
        for header, need in headers:
            if need == 'torch' and TORCH_NAME.search(text[str(header)]) and not includes_torch(text, str(header)):
                yield f'{header}: uses LibTorch and does not include it'
        yield from early_definitions(text)
        with tempfile.TemporaryDirectory() as folder:
            needs = [need for _, need in headers]
            flags = {need: tool.flags_for(need) for need in needs}
            if flags.get('torch') and needs.count('torch') > 1:
                flags['torch'] = with_libtorch_read(tool, pathlib.Path(folder))

            def compile_one(item):
                header, need = item
                if flags[need] is None:
                    return None
                source = pathlib.Path(folder) / str(header).replace('/', '_').replace('.hpp', '.cpp')
                both = ''.join(f'#include <{name}>\n' for name in (str(header), definitions_of(str(header))) if name in text)
                return header, *tool.compile([*flags[need], *COMPILED, '-I', str(root / 'include')], source, both + both)

            for result in compiler.each(compile_one, headers):
                if result and (result[1] != 0 or result[2]):
                    yield f'{result[0]}: does not compile alone, twice, without a warning:\n{result[2]}'
    return check


def definitions_of(header):
    return header.replace('.hpp', '-inl.hpp')


def early_definitions(text):
    """Where what a header defines apart includes one that is still being read, and is not read again."""
    includes = {header: [name for name in INCLUDE.findall(content) if name in text] for header, content in text.items()}
    found = set()

    def read(header, seen, being_read):
        seen.add(header)
        being_read.add(header)
        for name in includes[header]:
            if name == definitions_of(header):
                being_read.discard(header)  # its declarations come first
            if name in being_read:
                found.add(f'{header}: includes {name}, which includes it before its own declarations')
            elif name not in seen:
                read(name, seen, being_read)
        being_read.discard(header)

    for header in text:
        if not header.endswith('-inl.hpp') and '/impl/' not in header:
            read(header, set(), set())
    return sorted(found)


def includes_torch(text, header, seen=None):
    """Whether a header includes LibTorch, by itself or through others of raytrain."""
    seen = seen if seen is not None else set()
    seen.add(header)
    names = INCLUDE.findall(text.get(header, ''))
    return any(TORCH_HEADER.match(name) or name not in seen and includes_torch(text, name, seen) for name in names)


def with_libtorch_read(tool, folder):
    """Flags with LibTorch's headers compiled before: they take 10 s, and who includes them is looked at above."""
    header = folder / 'libtorch.hpp'
    status, said = tool.compile([*tool.torch, '-x', 'c++-header'], header, '#include <torch/torch.h>\n', f'{header}.gch')
    if status != 0:
        raise RuntimeError(said)
    return [*tool.torch, '-include', str(header)]


GOOD = {'include/raytrain/core/a.hpp': '#pragma once\nstruct A {};\n'}
DEFECTS = {
    'a header that needs another one before it': {'include/raytrain/core/b.hpp': '#pragma once\ninline A* b = nullptr;\n'},
    'a header that is not its own guard': {'include/raytrain/core/b.hpp': 'struct B {};\n'},
    'a definition that needs another header before it': {
        'include/raytrain/core/b.hpp': '#pragma once\nint b();\n',
        'include/raytrain/core/b-inl.hpp': '#pragma once\n#include <raytrain/core/b.hpp>\nint b() { A a; return sizeof a; }\n'},
    'a definition before what it needs': {
        'include/raytrain/core/b.hpp': '#pragma once\nint b();\n#ifndef RAYTRAIN_COMPILED\n#include <raytrain/core/b-inl.hpp>\n#endif\n',
        'include/raytrain/core/b-inl.hpp': '#pragma once\n#include <raytrain/core/b.hpp>\n#include <raytrain/core/c.hpp>\n',
        'include/raytrain/core/c.hpp': '#pragma once\n#include <raytrain/core/b.hpp>\nstruct C {};\n'},
    'a header that warns': {'include/raytrain/core/b.hpp': '#pragma once\ninline int f() { int unused; return 1; }\n'},
}

if __name__ == '__main__':
    own, given = compiler.split_arguments(sys.argv[1:])
    defects = dict(DEFECTS)
    if given.torch:
        defects['a header that uses LibTorch and does not include it'] = {
            'include/raytrain/backend/torch/b.hpp': '#pragma once\nusing Tensor = torch::Tensor;\n'}
    if given.xgboost:
        defects['a header that uses XGBoost and does not include it'] = {
            'include/raytrain/backend/xgboost/b.hpp': '#pragma once\ninline BoosterHandle booster = nullptr;\n'}
    if given.mpi:
        defects['a header that uses MPI and does not include it'] = {
            'include/raytrain/collective/mpi_b.hpp': '#pragma once\nusing Handle = MPI_Comm;\n'}
    sys.exit(guard.main(checker(given), GOOD, defects, own))
