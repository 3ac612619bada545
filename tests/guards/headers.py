# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, and twice in a row, without a warning; what needs LibTorch, XGBoost, MPI or NCCL where
that is. Those with definitions apart do so with them, the others beside the compiled library, which parses faster: their own
text is the same."""
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
        text = {str(header): (root / 'include' / header).read_text() for header, _ in headers}
        for header, need in headers:
            if need == 'torch' and TORCH_NAME.search(text[str(header)]) and not includes_torch(text, str(header)):
                yield f'{header}: uses LibTorch and does not include it'
        with tempfile.TemporaryDirectory() as folder:
            needs = [need for _, need in headers]
            flags = {need: tool.flags_for(need) for need in needs}
            defined_apart = {str(path.relative_to('include')).replace('-inl.hpp', '.hpp')
                             for path in guard.files(root, 'include', endings=['-inl.hpp'])}
            if flags.get('torch') and needs.count('torch') > 1:
                flags['torch'] = with_libtorch_read(tool, pathlib.Path(folder))

            def compile_one(item):
                header, need = item
                if flags[need] is None:
                    return None
                how = [] if str(header) in defined_apart else COMPILED
                source = pathlib.Path(folder) / str(header).replace('/', '_').replace('.hpp', '.cpp')
                twice = f'#include <{header}>\n#include <{header}>\n'
                return header, *tool.compile([*flags[need], *how, '-I', str(root / 'include')], source, twice)

            for result in compiler.each(compile_one, headers):
                if result and (result[1] != 0 or result[2]):
                    yield f'{result[0]}: does not compile alone, twice, without a warning:\n{result[2]}'
    return check


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
