# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import resource
import shlex

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARIES = ['-lfmt', '-lxxhash', '-lz', '-lzstd', '-lpthread']


def describe():
    return 'what including raytrain costs the compiler, beside the headers of other libraries alone (G13)'


class Compiler:
    """That of the build folder, with the flags that it has for a program of examples/, without its optimisation."""

    def __init__(self, context, example):
        commands = json.loads((context.build / 'compile_commands.json').read_text())
        found = next((entry for entry in commands if entry['file'].endswith(f'examples/{example}.cpp')), None)
        if found is None:
            context.skip(f'examples/{example} is not built: apt-get install --no-install-recommends libtorch-dev')
        words = re.sub('-isystem (?=/)', '-isystem', found['command'])
        words = [word for word in shlex.split(words) if not word.endswith('ccache')]
        self.context, self.program = context, words[0]
        flags = [word for word in words[1:] if re.match(r'-(std|D(?!NDEBUG|RAYTRAIN_COMPILED)|isystem|pthread)', word)]
        self.flags = [*flags, f'-I{ROOT / "include"}']

    def cpu_s(self, *arguments):
        """CPU time, which other work on the machine changes little."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.context.text(self.program, *self.flags, *arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def headers_of_others(compiler, *flags):
    """What raytrain's headers include that is not raytrain's."""
    listed = compiler.context.text(compiler.program, *compiler.flags, *flags, '-M', 'trainer.cpp').replace('\\\n', ' ').split()
    texts = [pathlib.Path(path).read_text() for path in listed if '/raytrain/' in path]
    return sorted({line for text in texts for line in re.findall(r'^#include <(?!raytrain/).*>$', text, re.M)})


def run(context):
    folder = pathlib.Path(context.folder)
    compiler = Compiler(context, 'linear_regression')
    (folder / 'trainer.cpp').write_text('#include <raytrain/trainer.hpp>\n')
    ways = {'with the library': ['-DRAYTRAIN_COMPILED', '-DRAYTRAIN_COMPILED_TORCH'], 'of headers alone': []}
    for way, flags in ways.items():
        (folder / 'others.cpp').write_text('\n'.join(headers_of_others(compiler, *flags)) + '\n')
        for name, metric, goal in [('trainer', 'CPU time to parse it, s', 2.0 if flags else 4.0), ('others', 'of it what it includes of other libraries, s', None)]:
            times = [compiler.cpu_s(*flags, '-fsyntax-only', f'{name}.cpp') for _ in range(context.rounds if flags else 1)]
            context.row(f'<raytrain/trainer.hpp> {way}', metric, times, goal=goal, direction='lower')

    context.make('libraytrain.a')
    for way, flags in ways.items():
        name = 'small' if flags else 'small_of_headers'
        times = [compiler.cpu_s(*flags, '-O2', '-c', HERE / 'small.cpp', '-o', f'{name}.o') for _ in range(context.rounds if flags else 1)]
        context.text(compiler.program, f'{name}.o', '-o', name, *([context.build / 'libraytrain.a'] if flags else []), *LIBRARIES)
        context.text(folder / name)
        context.text('rm', '-r', 'runs')
        context.row(f'a program of 25 lines {way}, -O2', 'CPU time to compile it, s', times, goal=6.0 if flags else None, direction='lower')
        context.row(f'a program of 25 lines {way}, -O2', 'KiB of its code', [code_kib(context, name)], direction='lower')
    rebuild(context, compiler, folder, ways['with the library'])


def rebuild(context, compiler, folder, flags):
    """What compiling a changed program takes whose headers are precompiled."""
    sides = {'raytrain': (['raytrain/backend/torch.hpp', 'raytrain/trainer.hpp'], ROOT / 'examples/linear_regression.cpp', flags),
             'plain': (['torch/torch.h'], HERE / 'plain.cpp', [])}
    turns = {}
    for side, (headers, source, also) in sides.items():
        (folder / f'{side}_pch.hpp').write_text(''.join(f'#include <{header}>\n' for header in headers))
        compiler.cpu_s(*also, '-O2', '-x', 'c++-header', f'{side}_pch.hpp', '-o', f'{side}_pch.hpp.gch')
        turns[side] = lambda _, side=side, source=source, also=also: compiler.cpu_s(
            *also, '-O2', '-Winvalid-pch', '-Werror=invalid-pch', '-include', folder / f'{side}_pch.hpp', '-c', source, '-o', f'{side}.o')
    times = context.in_turns(turns)
    case = 'linear_regression changed, with a precompiled header, -O2'
    context.row(case, 'CPU time over that of plain LibTorch', [us / plain for us, plain in zip(times['raytrain'], times['plain'])], goal=1.2, direction='lower')
    context.row(case, 'CPU time to compile it, s', times['raytrain'], direction='lower')
    context.row(case, 'CPU time to compile it by plain LibTorch, s', times['plain'], direction='lower')


def code_kib(context, name):
    return int(context.text('size', name).splitlines()[1].split()[0]) / 1024
