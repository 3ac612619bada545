# SPDX-License-Identifier: Apache-2.0
"""The Fashion-MNIST example trains, in a folder of its own, on so many images and is tested on as many:

  few_images.py NUMBER PROGRAM ARGUMENTS...
"""
import gzip
import os
import pathlib
import struct
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us, run_in_group

ended_with_us()

ALL = pathlib.Path('/usr/share/datasets/fashion-mnist')
number, program, *arguments = sys.argv[1:]


def copy_head(source, target):
    """Of a file in IDX format, whose header has the type, the dimensions and the size of each, from the first one on."""
    with gzip.open(source) as file:
        kind, dimensions = struct.unpack('>xxBB', file.read(4))
        sizes = struct.unpack(f'>{dimensions}I', file.read(4 * dimensions))
        row = 1
        for size in sizes[1:]:
            row *= size
        header = struct.pack(f'>xxBB{dimensions}I', kind, dimensions, int(number), *sizes[1:])
        with gzip.open(target, 'wb') as few:
            few.write(header + file.read(int(number) * row))


with tempfile.TemporaryDirectory() as folder:
    for path in ALL.glob('*.gz'):
        copy_head(path, os.path.join(folder, path.name))
    command = [os.path.abspath(program), '--data', folder, *arguments]
    sys.exit(run_in_group(command, cwd=folder).returncode)
