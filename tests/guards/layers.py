# SPDX-License-Identifier: Apache-2.0
"""Includes point down the layers only, a third-party library stays in the folder that owns it, and a folder's details in its detail/."""
import re
import sys

import guard

# Folder -> the folders whose headers it may include, besides its own.
BELOW = {
    'core': [],
    'config': ['core'],
    'message': ['core'],
    'exec': ['core'],
    'collective': ['core'],
    'checkpoint': ['core', 'config', 'message'],
    'data': ['core', 'config', 'message', 'exec'],
    'preprocess': ['core', 'config', 'message', 'checkpoint', 'data'],
    'launch': ['core', 'config', 'message', 'exec', 'collective'],
}
BELOW['train'] = list(BELOW)
BELOW['backend'] = list(BELOW)
BELOW['callback'] = ['core', 'config', 'message', 'exec', 'collective', 'checkpoint', 'data', 'preprocess', 'launch', 'train']

# Files beside the folders: the front door names no concrete backend, and nothing inside comes back to it.
CONCEPT = 'raytrain/backend/backend.hpp'
FRONT = ['raytrain/trainer.hpp', 'raytrain/preprocess.hpp', 'raytrain/raytrain.hpp']

# What needs MPI, Arrow or stb is included by nothing that works without it.
MAY_NEED_MPI = ('collective/mpi', 'collective/detail/mpi_', 'launch/ranks', 'launch/rank_communicator', 'launch/detail/mpi_lifetime',
                'backend/mpi/communicator')
MAY_NEED_PARQUET = ('data/parquet.hpp', 'data/arrow.hpp', 'data/detail/arrow_', 'data/detail/parquet_')
MAY_NEED_STB = ('data/images.hpp', 'data/detail/image_reader.hpp', 'data/detail/decode_image.hpp')
MAY_NEED = {'MPI': MAY_NEED_MPI, 'Arrow': MAY_NEED_PARQUET, 'stb': MAY_NEED_STB}

# A library -> the only folders that see it.
OWNERS = {
    r'asio(\.hpp|/)': ['exec'],
    r'cereal/': ['message'],
    r'rapidjson/': ['message'],
    r'(torch|ATen|c10|caffe2)/': ['backend/torch'],
    r'xgboost/': ['backend/xgboost'],
    r'xxhash\.h': ['core/xxh3'],
    r'(stb/)?stb_\w+\.h': ['data/detail/decode_image.hpp'],
    r'mpi\.h': ['collective/detail/mpi_library.hpp'],
    r'(cuda\w*|driver_types|vector_types)\.h': ['collective/cuda/', 'collective/device.hpp', 'collective/nccl'],
    r'nccl\w*\.h': ['collective/nccl'],
    r'(arrow|parquet)/': list(MAY_NEED_PARQUET),
    r'fmt/': [folder for folder in [*BELOW, 'trainer.hpp', 'testing'] if folder != 'core'],
}


def check(root):
    yield from details_outside(root)
    for path in guard.files(root, 'include'):
        inside = path.relative_to('include/raytrain')
        layer = inside.parts[0]
        if len(inside.parts) > 1 and layer not in [*BELOW, 'testing', 'impl']:
            yield f'{path}: the folder {layer}/ has no place among the layers (tests/guards/layers.py)'
            continue
        for number, line in enumerate(guard.lines(root, path), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not found:
                continue
            where, target = f'{path}:{number}', found[2]
            if found[1] == '"':
                yield f'{where}: "{target}" instead of <raytrain/...>'
            elif target.startswith('raytrain/'):
                yield from arrow(where, inside, layer, target)
            else:
                for library, owners in OWNERS.items():
                    if re.match(library, target) and not any(str(inside).startswith(owner) for owner in owners):
                        yield f'{where}: <{target}> is seen by {", ".join(owners)} only'


def details_outside(root):
    """Headers of details alone that lie where other folders may include them, and that none does."""
    paths = [path for path in guard.files(root, 'include', endings=['.hpp']) if path.parts[2] not in ('testing', 'impl')]
    text = {path: '\n'.join(guard.lines(root, path)) for path in paths}
    users = {}
    for path in paths:
        for target in re.findall(r'^\s*#\s*include <(raytrain/[^>]+)>', text[path], re.MULTILINE):
            users.setdefault(target, set()).add(path.parts[2])
    for path in paths:
        namespaces = re.findall(r'^namespace (raytrain[\w:]*)', text[path], re.MULTILINE)
        is_of_details = namespaces and all(namespace.startswith('raytrain::detail') for namespace in namespaces)
        if not is_of_details or path.parent.name == 'detail' or path.stem.endswith('-inl') or len(path.parts) < 4:
            continue
        if users.get(str(path.relative_to('include')), set()) <= {path.parts[2]}:
            yield f'{path}: has details alone, and no other folder includes it: it belongs into {path.parent}/detail/'


def arrow(where, inside, layer, target):
    parts = target.split('/')[1:]
    for library, paths in MAY_NEED.items():
        if '/'.join(parts).startswith(paths) and not str(inside).startswith(paths):
            yield f'{where}: {target} needs {library}, without which {inside} must compile'
    if layer in ('testing', 'impl') or parts[0] == 'version.hpp':
        return
    if len(inside.parts) == 1:
        if parts[0] == 'backend' and target != CONCEPT and inside.name != 'raytrain.hpp':
            yield f'{where}: {inside.name} names a concrete backend, {target}'
        elif parts[0] == 'testing':
            yield f'{where}: {target} is for tests'
    elif target in FRONT:
        yield f'{where}: {layer}/ lies below {target}'
    elif parts[0] != layer and parts[0] not in BELOW[layer]:
        yield f'{where}: {layer}/ may include {", ".join(BELOW[layer]) or "the standard library"} and itself, not {target}'
    elif parts[0] != layer and 'detail' in parts:
        yield f'{where}: {target} belongs to {parts[0]}/ alone'


GOOD = {
    'include/raytrain/core/identifiers.hpp': '#include <vector>\n',
    'include/raytrain/exec/executor.hpp': '#include <asio/awaitable.hpp>\n#include <raytrain/core/identifiers.hpp>\n',
    'include/raytrain/trainer.hpp': '#include <raytrain/backend/backend.hpp>\n',
    'include/raytrain/testing/double.hpp': '#include <raytrain/trainer.hpp>\n',
    'include/raytrain/core/pages.hpp': 'namespace raytrain::detail {\n',
    'include/raytrain/collective/buffer.hpp': '#include <raytrain/core/pages.hpp>\nnamespace raytrain {\n',
    'include/raytrain/collective/detail/barrier.hpp': 'namespace raytrain::detail {\n',
}
DEFECTS = {
    'an arrow that points up': {'include/raytrain/core/up.hpp': '#include <raytrain/train/controller.hpp>\n'},
    'an arrow that points up from the details': {'include/raytrain/core/detail/up.hpp': '#include <raytrain/data/idx.hpp>\n'},
    'an arrow to the side': {'include/raytrain/data/side.hpp': '#include <raytrain/checkpoint/checkpoint.hpp>\n'},
    'the front door from inside': {'include/raytrain/train/in.hpp': '#include <raytrain/trainer.hpp>\n'},
    'a concrete backend in the front door': {'include/raytrain/trainer.hpp': '#include <raytrain/backend/torch.hpp>\n'},
    'Asio outside exec': {'include/raytrain/train/a.hpp': '#include <asio/post.hpp>\n'},
    'cereal outside message': {'include/raytrain/config/c.hpp': '  #  include <cereal/cereal.hpp>\n'},
    'LibTorch in the generic path': {'include/raytrain/train/t.hpp': '#include <torch/torch.h>\n'},
    'XGBoost in the generic path': {'include/raytrain/train/x.hpp': '#include <xgboost/c_api.h>\n'},
    'MPI outside of its collective': {'include/raytrain/collective/m.hpp': '#include <mpi.h>\n'},
    'MPI in the generic path': {'include/raytrain/train/m.hpp': '#include <raytrain/collective/mpi.hpp>\n'},
    'MPI in the generic path of collectives': {'include/raytrain/collective/m.hpp': '#include <raytrain/collective/detail/mpi_m.hpp>\n'},
    'MPI in a backend that works without it': {'include/raytrain/backend/mpi.hpp': '#include <raytrain/backend/mpi/communicator.hpp>\n'},
    'Arrow in what works without it': {'include/raytrain/data/p.hpp': '#include <raytrain/data/parquet.hpp>\n'},
    'stb beside its decoder': {'include/raytrain/data/s.hpp': '#include <stb/stb_image.h>\n'},
    'stb in what all programs include': {'include/raytrain/raytrain.hpp': '#include <raytrain/data/images.hpp>\n'},
    'stb in what works without it': {'include/raytrain/data/s-inl.hpp': '#include <raytrain/data/detail/decode_image.hpp>\n'},
    'CUDA outside its collectives': {'include/raytrain/collective/local.hpp': '#include <cuda_runtime_api.h>\n'},
    'NCCL in the kernels': {'include/raytrain/collective/cuda/k.hpp': '#include <nccl.h>\n'},
    'the details of another folder': {'include/raytrain/train/d.hpp': '#include <raytrain/exec/detail/x.hpp>\n'},
    'details outside of detail/': {
        'include/raytrain/launch/words.hpp': 'namespace raytrain::detail {\n',
        'include/raytrain/launch/job.hpp': '#include <raytrain/launch/words.hpp>\nnamespace raytrain {\n',
    },
    'a folder that is no layer': {'include/raytrain/misc/x.hpp': '#include <vector>\n'},
    'a quoted include': {'include/raytrain/core/q.hpp': '#include "rank.hpp"\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
