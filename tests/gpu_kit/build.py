# SPDX-License-Identifier: Apache-2.0
"""Objects and programs, compiled beside each other. What did not change since the last run is not compiled again."""
import concurrent.futures
import hashlib
import pathlib
import re
import time

from machine import ROOT

COMPILE_LIMIT_S = 300
LIBRARY_SOURCE = '#include <raytrain/impl/{folder}.hpp>\n'


class Failure(Exception):
    """Something that does not compile or link; its text is the compiler's first error."""


class Build:
    def __init__(self, machine, steps, folder, jobs):
        self.machine, self.steps, self.folder = machine, steps, folder
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.begin = time.monotonic()
        self.seconds = 0.0  # until what was compiled or linked last
        self.objects = {}  # path of the object -> the future that makes it

    def program(self, program):
        """A future of the program's path."""
        with_torch = 'torch' in program.needs
        objects = [*self.library(with_torch), self.kernels()]
        objects += [self.compile(ROOT / source, program.optimization, with_torch) for source in program.sources]
        # The pool begins in order, so whatever this one waits for has begun.
        return self.pool.submit(self.link, program, objects)

    def library(self, with_torch):
        """What the headers define, compiled once, as meson.build does for the library."""
        folders = sorted(path.stem for path in (ROOT / 'include/raytrain/impl').glob('*.hpp'))
        # That of LibTorch takes longest, so it begins first.
        for folder in (['torch'] if with_torch else []) + [name for name in folders if name not in ('src', 'torch')]:
            source = self.folder / f'{folder}.cpp'
            text = LIBRARY_SOURCE.format(folder=folder)
            if not source.is_file() or source.read_text() != text:
                source.write_text(text)
            yield self.compile(source, '-O2', folder == 'torch')

    def kernels(self):
        source = ROOT / 'include/raytrain/collective/cuda/kernels.cu'
        return self.once(source, self.folder / 'kernels.o', [self.machine.nvcc, *self.machine.kernel_flags()])

    def compile(self, source, optimization, with_torch):
        name = re.sub(r'\W', '_', str(source.relative_to(ROOT if source.is_relative_to(ROOT) else self.folder)))
        # A precompiled <torch/torch.h> takes longer than it saves where there are as many cores as files.
        return self.once(source, self.folder / f'{name}_{"torch" if with_torch else "core"}{optimization}.o',
                         [*self.machine.compiler, optimization, *self.machine.compile_flags(with_torch)])

    def once(self, source, target, command):
        if target not in self.objects:
            self.objects[target] = self.pool.submit(self.make, source, target, command)
        return self.objects[target]

    def make(self, source, target, command):
        command = ['nice', *command, '-MD', '-MF', target.with_suffix('.d'), '-c', source, '-o', target]
        key = target.with_suffix('.key')
        if target.is_file() and key.is_file() and key.read_text() == self.key(target, command):
            return target
        key.unlink(missing_ok=True)
        ended = self.steps.command(command, COMPILE_LIMIT_S, self.folder)
        if ended.status != 0:
            raise Failure(f'does not compile: {first_error(ended)}')
        key.write_text(self.key(target, command))
        return target

    def key(self, target, command):
        """Of a command and of what it reads in the project; the machine's own headers stay as they are."""
        hashed = hashlib.sha256(repr(list(map(str, command))).encode())
        for word in target.with_suffix('.d').read_text().replace('\\\n', ' ').split():
            path = pathlib.Path(word)
            if path.is_absolute() and path.is_relative_to(ROOT) and not path.is_relative_to(self.folder):
                hashed.update(path.read_bytes() if path.is_file() else b'')
        return hashed.hexdigest()

    def link(self, program, objects):
        made = [each.result() for each in objects]
        target = self.folder / program.name
        ended = self.steps.command([*self.machine.compiler, *made, *self.machine.link_flags(program.needs), '-o', target], COMPILE_LIMIT_S,
                                   self.folder)
        self.seconds = time.monotonic() - self.begin
        if ended.status != 0:
            raise Failure(f'does not link: {first_error(ended)}')
        return target


def first_error(ended):
    if ended.status is None:
        return str(ended)
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
    found = next((line for line in lines if re.search(r'error|undefined reference|cannot find', line)), None)
    return re.sub(r'^\S*/([^/:]+:\d+)(:\d+)?: (fatal )?error: ', r'\1: ', found or (lines or [str(ended)])[-1])
