# SPDX-License-Identifier: Apache-2.0
"""How the guards that compile something find the compiler and its flags: meson passes both.

  GUARD.py [arguments of the guard] -- c++ FLAG... [--torch FLAG...] [--xgboost FLAG...] [--mpi FLAG...] [--nccl FLAG...] [--stb FLAG...]

What follows --torch is added for what needs LibTorch, what follows --xgboost for what needs XGBoost, what follows --mpi
for what needs MPI, what follows --nccl for what needs CUDA and NCCL, what follows --stb for what needs stb; where one is
missing there is no such library.
"""
import concurrent.futures
import os
import subprocess

import layers


class Compiler:
    def __init__(self, words):
        words, added_for_stb = split_at(words, '--stb')
        words, added_for_nccl = split_at(words, '--nccl')
        words, added_for_mpi = split_at(words, '--mpi')
        words, added_for_xgboost = split_at(words, '--xgboost')
        self.core, added_for_torch = split_at(words, '--torch')
        self.torch = None if added_for_torch is None else self.core + added_for_torch
        self.xgboost = None if added_for_xgboost is None else self.core + added_for_xgboost
        self.mpi = None if added_for_mpi is None else self.core + added_for_mpi
        self.nccl = None if added_for_nccl is None else self.core + added_for_nccl
        self.stb = None if added_for_stb is None else self.core + added_for_stb
        added = [added_for_torch, added_for_xgboost, added_for_mpi, added_for_nccl, added_for_stb]
        self.everything = self.core + [flag for flags in added for flag in flags or []]

    def flags_for(self, need):
        """Those for what needs 'core', 'torch', 'xgboost', 'mpi', 'nccl' or 'stb'; None where that is missing."""
        return getattr(self, need)

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
    """The headers that declare, and what each needs: 'core', 'torch', 'xgboost', 'mpi', 'nccl' or 'stb'."""
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
    if inside.startswith(layers.MAY_NEED_STB):
        return 'stb'
    return 'mpi' if inside.startswith(layers.MAY_NEED_MPI) else 'core'
