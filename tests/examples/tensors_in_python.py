# SPDX-License-Identifier: Apache-2.0
"""A network that the Fashion-MNIST example has stored is read in Python, without PyTorch:

  tensors_in_python.py FASHION_MNIST

By the Python package safetensors, too, where that or the one that ./setup fetches is there with NumPy.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

SKIPPED = 77
SIZES = {'F32': 4, 'F64': 8, 'I64': 8}


def tensors_in(path):
    """Type, shape and bytes of each tensor, by its name."""
    data = path.read_bytes()
    length, = struct.unpack_from('<Q', data)
    header = json.loads(data[8:8 + length].decode())
    if (8 + length) % 64 != 0 or header.pop('__metadata__') != {'format': 'pt'}:
        sys.exit(f'{path.name} has a header of {8 + length} bytes, or other metadata')
    tensors, place = {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]['data_offsets']):
        begin, end = tensor['data_offsets']
        size = SIZES[tensor['dtype']]
        for extent in tensor['shape']:
            size *= extent
        if begin != place or end - begin != size:
            sys.exit(f'{path.name}: {name} lies from {begin} to {end}, after {place}, and has {size} bytes')
        tensors[name] = tensor['dtype'], tensor['shape'], data[8 + length + begin:8 + length + end]
        place = end
    if 8 + length + place != len(data):
        sys.exit(f'{path.name}: the tensors end at {8 + length + place} of {len(data)} bytes')
    return tensors


def compare_with_package(path, tensors):
    sys.path.append(str(pathlib.Path(__file__).parents[2] / 'build' / 'safetensors'))
    try:
        import numpy
        from safetensors.numpy import load_file
    except ImportError as missing:
        print(f'without the Python package {missing.name}')
        return
    there = load_file(path)
    for name, (_, shape, data) in tensors.items():
        if list(there[name].shape) != shape or numpy.ascontiguousarray(there[name]).tobytes() != data:
            sys.exit(f'{path.name}: {name} is another tensor for safetensors')
    if set(there) != set(tensors):
        sys.exit(f'{path.name}: safetensors finds {sorted(there)}')


program = os.path.abspath(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    command = [program, '--storage', folder, '--epochs', '1', '--samples', '512', '--workers', '1']
    status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    if status == SKIPPED:
        sys.exit(SKIPPED)
    if status != 0:
        sys.exit(f'exit status {status}')
    last = max(pathlib.Path(folder).glob('*/checkpoints/checkpoint_*'))
    model = tensors_in(last / 'model.safetensors')
    print({name: shape for name, (_, shape, _) in model.items()})
    compare_with_package(last / 'model.safetensors', model)
    inputs = [shape[1] for _, shape, _ in model.values() if len(shape) == 2]
    numbers = [number for _, _, data in model.values() for number in struct.unpack(f'<{len(data) // 4}f', data)]
    if 784 not in inputs or not 0.001 < max(numbers) < 10 or not -10 < min(numbers) < -0.001:
        sys.exit(f'{len(numbers)} numbers from {min(numbers)} to {max(numbers)}, layers with {inputs} inputs')
