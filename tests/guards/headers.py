# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, and twice in a row, without a warning, beside the compiled library; and what it defines
apart does, with nothing of what other headers define apart. What needs LibTorch, XGBoost, MPI, NCCL or stb does where that is.

Then definitions that follow their header, as without the library, can only miss what is read later: so none includes, from
whichever header a program begins with, one of which the declarations are not over."""
import pathlib
import re
import sys
import tempfile

import compiler
import guard
import includes

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
            for need in flags:
                if flags[need] and needs.count(need) > 1:
                    flags[need] = with_headers_read(tool, flags[need], need, text, pathlib.Path(folder))

            def compile_one(item):
                header, need = item
                if flags[need] is None:
                    return None
                source = pathlib.Path(folder) / str(header).replace('/', '_').replace('.hpp', '.cpp')
                both = ''.join(f'#include <{name}>\n' for name in (str(header), definitions_of(str(header))) if name in text)
                compile_both = compile_to_the_end if need == 'torch' else tool.compile
                return header, *compile_both([*flags[need], *COMPILED, '-I', str(root / 'include')], source, both + both)

            for result in compiler.each(compile_one, headers):
                if result and (result[1] != 0 or result[2]):
                    yield f'{result[0]}: does not compile alone, twice, without a warning:\n{result[2]}'
    return check


def compile_to_the_end(flags, source, text):
    """Compiles until all is read, where an error ends it: what LibTorch's headers leave to be instantiated behind that takes 8 s
    in each file."""
    end = 'all of the header was read'
    status, said = compiler.Compiler.compile([*flags, '-Wfatal-errors'], source, f'{text}static_assert(false, "{end}");\n')
    return (0, '') if end in said and 'warning:' not in said else (status, said)


def definitions_of(header):
    return header.replace('.hpp', '-inl.hpp')


def early_definitions(text):
    """Where what a header defines apart includes one that is still being read, and is not read again."""
    named = {header: [name for name in INCLUDE.findall(content) if name in text] for header, content in text.items()}
    found = set()

    def read(header, seen, being_read):
        seen.add(header)
        being_read.add(header)
        for name in named[header]:
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


def with_headers_read(tool, flags, need, text, folder):
    """Flags with the headers compiled before that take longest to read: those of the standard library and fmt, and LibTorch's.
    Who includes those is looked at above, and by the guard of includes."""
    known = {name for content in text.values() for name in INCLUDE.findall(content) if name in includes.STANDARD}
    read = sorted(known) + (['torch/torch.h'] if need == 'torch' else [])
    header = folder / f'{need}.hpp'
    lines = ''.join(f'#include <{name}>\n' for name in read)
    status, said = tool.compile([*flags, *COMPILED, '-x', 'c++-header'], header, lines, f'{header}.gch')
    if status != 0:
        raise RuntimeError(said)
    return [*flags, '-include', str(header)]


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
    if given.flags_for('torch'):
        defects['a header that uses LibTorch and does not include it'] = {
            'include/raytrain/backend/torch/b.hpp': '#pragma once\nusing Tensor = torch::Tensor;\n'}
    if given.flags_for('xgboost'):
        defects['a header that uses XGBoost and does not include it'] = {
            'include/raytrain/backend/xgboost/b.hpp': '#pragma once\ninline BoosterHandle booster = nullptr;\n'}
    if given.flags_for('mpi'):
        defects['a header that uses MPI and does not include it'] = {
            'include/raytrain/collective/mpi_b.hpp': '#pragma once\nusing Handle = MPI_Comm;\n'}
    sys.exit(guard.main(checker(given), GOOD, defects, own))
