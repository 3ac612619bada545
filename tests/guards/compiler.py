# SPDX-License-Identifier: Apache-2.0
"""How the guards that compile something find the compiler and its flags: meson passes both.

  GUARD.py [arguments of the guard] -- c++ FLAG... [--torch FLAG...]

What follows --torch is added for what needs LibTorch; where it is missing there is no LibTorch.
"""
import concurrent.futures
import os
import subprocess


class Compiler:
    def __init__(self, words):
        split = words.index('--torch') if '--torch' in words else len(words)
        self.core = words[:split]
        self.torch = self.core + words[split + 1:] if split < len(words) else None

    def flags_for(self, needs_torch):
        """None where LibTorch is needed and missing."""
        return self.torch if needs_torch else self.core

    @staticmethod
    def compile(flags, source, text=None, output=None):
        """Compiles a file, written first if a text is given; the exit status and what the compiler said."""
        if text is not None and (not source.exists() or source.read_text() != text):
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(text)
        how = ['-c', '-o', str(output)] if output else ['-fsyntax-only']
        done = subprocess.run([*flags, '-O0', *how, str(source)], text=True, capture_output=True, check=False)
        return done.returncode, done.stderr


def split_arguments(arguments):
    """The guard's own arguments, and the compiler behind the --."""
    at = arguments.index('--') if '--' in arguments else len(arguments)
    return arguments[:at], Compiler(arguments[at + 1:])


def each(function, items):
    """Calls function for all items, as many at a time as there are cores; the results in order."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, items))


def headers(root, guard):
    """The public headers and whether each needs LibTorch."""
    return [(path.relative_to('include'), path.parts[2:4] in (('backend', 'torch'), ('backend', 'torch.hpp')))
            for path in guard.files(root, 'include', endings=['.hpp'])]
