# SPDX-License-Identifier: Apache-2.0
"""Nothing is forgotten: a meson.build names every source file of tests/, examples/ and benchmarks/, and the definitions of
each header are in its header, for programs of headers alone, and in the library. Those of x.hpp may be in x_TOPIC-inl.hpp, too."""
import re
import sys

import guard

# Those that something else compiles.
ELSEWHERE = ['tests/fuzz', 'tests/consumer', 'tests/gpu_kit']


def check(root):
    builds = {path.parent: (root / path).read_text() for path in guard.files(root, endings=['meson.build'])}
    for path in guard.files(root, 'tests', 'examples', 'benchmarks', endings=['.cpp']):
        if any(str(path).startswith(f'{folder}/') for folder in ELSEWHERE):
            continue
        named = [f"'{path.relative_to(folder).with_suffix(ending)}'" in text
                 for folder, text in builds.items() if folder in path.parents for ending in ('.cpp', '')]
        if not any(named):
            yield f'{path}: no meson.build compiles it'
    yield from definitions(root)
    yield from all_definitions(root)


def definitions(root):
    for path in guard.files(root, 'include', endings=['-inl.hpp']):
        name = path.relative_to('include')
        inclusion = f'#include <{name}>'
        needs_torch = str(name).startswith('raytrain/backend/torch')
        macro = 'RAYTRAIN_COMPILED_TORCH' if needs_torch else 'RAYTRAIN_COMPILED'
        library = root / 'include/raytrain/impl' / ('torch.hpp' if needs_torch else f'{name.parts[1]}.hpp')
        words = path.name.removesuffix('-inl.hpp').split('_')
        headers = [root / path.parent / f'{"_".join(words[:count])}.hpp' for count in range(len(words), 0, -1)]
        header = next((header.read_text() for header in headers if header.exists()), '')
        if not re.search(f'#ifndef {macro}\n(#include <.*-inl.hpp>\n)*{inclusion}\n(#include <.*-inl.hpp>\n)*#endif\n', header):
            yield f'{path}: its header does not end with "#ifndef {macro}", "{inclusion}", "#endif"'
        if inclusion not in (library.read_text() if library.exists() else ''):
            yield f'{path}: {library.relative_to(root)} does not include it'


def all_definitions(root):
    """For programs that compile them in one file."""
    source = root / 'include/raytrain/impl/src.hpp'
    text = source.read_text() if source.exists() else ''
    for path in guard.files(root, 'include', endings=['.hpp']):
        if path.parent.name == 'impl' and path.name not in ('src.hpp', 'torch.hpp') and f'#include <{path.relative_to("include")}>' not in text:
            yield f'{path}: include/raytrain/impl/src.hpp does not include it'


BOTH = '#include <raytrain/core/a-inl.hpp>\n#include <raytrain/core/a_more-inl.hpp>\n'
GOOD = {'include/raytrain/core/a-inl.hpp': '', 'include/raytrain/core/a_more-inl.hpp': '',
        'include/raytrain/core/a.hpp': f'#ifndef RAYTRAIN_COMPILED\n{BOTH}#endif\n', 'include/raytrain/impl/core.hpp': BOTH,
        'include/raytrain/impl/src.hpp': '#include <raytrain/impl/core.hpp>\n', 'tests/core/meson.build': "files('a_test.cpp')\n", 'tests/core/a_test.cpp': ''}
DEFECTS = {'a test that nobody compiles': {'tests/core/b_test.cpp': ''},
           'definitions that are in no program': {'include/raytrain/core/a.hpp': ''},
           'some definitions that are in no program': {'include/raytrain/core/a.hpp': GOOD['include/raytrain/core/a.hpp'].replace('a_more', 'b')},
           'definitions that are not in the library': {'include/raytrain/impl/core.hpp': ''},
           'a folder whose definitions are not among all': {'include/raytrain/impl/src.hpp': ''}}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
