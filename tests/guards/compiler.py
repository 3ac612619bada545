# SPDX-License-Identifier: Apache-2.0
"""How the guards that compile something find the compiler and its flags: meson passes both.

  GUARD.py [arguments of the guard] -- c++ FLAG... [--torch FLAG...] [--xgboost FLAG...] [--parquet FLAG...] [--mpi FLAG...] [--nccl FLAG...] [--stb FLAG...]

What follows --torch is added for what needs LibTorch, what follows --xgboost for what needs XGBoost, and so on; where one is missing
there is no such library.
"""
import concurrent.futures
import os
import subprocess

import layers


# The libraries that are optional, in the order of the arguments.
OPTIONAL = ['torch', 'xgboost', 'parquet', 'mpi', 'nccl', 'stb']


class Compiler:
    def __init__(self, words):
        added = {}
        for need in reversed(OPTIONAL):
            words, added[need] = split_at(words, f'--{need}')
        self.core = words
        self.flags = {need: None if flags is None else words + flags for need, flags in added.items()}
        self.everything = words + [flag for need in OPTIONAL for flag in added[need] or []]

    def flags_for(self, need):
        """Those for what needs 'core' or one of the optional libraries; None where that is missing."""
        return self.core if need == 'core' else self.flags[need]

    @staticmethod
    def compile(flags, source, text=None, output=None):
        """Compiles a file, written first if a text is given; the exit status and what the compiler said."""
        if text is not None and (not source.exists() or source.read_text() != text):
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(text)
        how = ['-c', '-o', str(output)] if output else ['-fsyntax-only']
        done = subprocess.run([*flags, '-O0', *how, str(source)], text=True, capture_output=True, check=False)
        return done.returncode, done.stderr


def split_at(words, word):
    """The words before that one, and those behind it, or None where there is no such word."""
    at = words.index(word) if word in words else None
    return (words, None) if at is None else (words[:at], words[at + 1:])


def split_arguments(arguments):
    """The guard's own arguments, and the compiler behind the --."""
    at = arguments.index('--') if '--' in arguments else len(arguments)
    return arguments[:at], Compiler(arguments[at + 1:])


def each(function, items):
    """Calls function for all items, as many at a time as there are cores; the results in order."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, items))


def headers(root, guard):
    """The headers that declare, and what each needs: 'core' or one of the optional libraries."""
    return [(path.relative_to('include'), need_of(path)) for path in guard.files(root, 'include', endings=['.hpp'])
            if not path.name.endswith('-inl.hpp') and 'impl' not in path.parts]


def need_of(path):
    inside = '/'.join(path.parts[2:])
    if inside.startswith(('backend/torch/', 'backend/torch.hpp')):
        return 'torch'
    if inside.startswith(('backend/xgboost/', 'backend/xgboost.hpp')):
        return 'xgboost'
    if inside.startswith(('collective/cuda/', 'collective/device.hpp', 'collective/nccl')):
        return 'nccl'
    if inside.startswith(layers.MAY_NEED_PARQUET):
        return 'parquet'
    if inside.startswith(layers.MAY_NEED_STB):
        return 'stb'
    return 'mpi' if inside.startswith(layers.MAY_NEED_MPI) else 'core'
