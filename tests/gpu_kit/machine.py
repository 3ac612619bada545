# SPDX-License-Identifier: Apache-2.0
"""What there is on this machine: compilers, CUDA, NCCL and LibTorch, and what a program needs to be built with them."""
import json
import os
import pathlib
import re
import shlex
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASK_TORCH = '''import importlib.util, json, torch
nvidia = importlib.util.find_spec('nvidia')
print(json.dumps({'folder': torch.__path__[0], 'version': torch.__version__, 'cuda': torch.version.cuda, 'new_abi': torch._C._GLIBCXX_USE_CXX11_ABI,
                  'sees_gpu': torch.cuda.is_available(), 'nvidia': list(nvidia.submodule_search_locations or []) if nvidia else []}))'''


# Importing it would take more packages.
FIND_PACKAGE = 'import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).submodule_search_locations[0])'


class Machine:
    """Flags and libraries by need ('cuda', 'nccl', 'torch', 'xgboost', 'lightgbm'), and why a need is not met."""

    def __init__(self, steps, torch, headers, libraries):
        self.steps = steps
        self.missing = {}
        self.described = []
        self.compiler = shlex.split(os.environ.get('CXX', 'g++'))
        self.describe([*self.compiler, '--version'], r'.*', 'g++')
        self.gpu = self.describe(['nvidia-smi', '--query-gpu=name,driver_version,memory.total', '--format=csv,noheader'], r'.*\d.*', 'GPU')
        self.wheels = []  # folders that hold NVIDIA's Python packages
        self.torch_folder = self.find_torch(torch)
        beside = [path for folder in self.wheels for path in sorted(folder.glob('*'))]
        self.find_cuda(beside)
        toolkit = [self.cuda] if self.cuda else []
        # LibTorch loads what lies beside it, so programs load the same.
        self.folders = [*([self.torch_folder / 'lib'] if self.torch_folder else []), *map(pathlib.Path, libraries),
                        *(path / name for path in [*beside, *toolkit] for name in ('lib64', 'lib', 'targets/x86_64-linux/lib')
                          if (path / name).is_dir())]
        self.cudart = self.library('libcudart.so')
        if self.cuda and not self.cudart:
            self.missing['cuda'] = 'no libcudart.so'
        self.nccl_include = next((path / 'include' for path in [*beside, *toolkit, pathlib.Path('/usr')]
                                  if (path / 'include/nccl.h').is_file()), None)
        self.nccl = self.library('libnccl.so')
        if not self.nccl_include or not self.nccl:
            self.missing['nccl'] = 'no nccl.h' if not self.nccl_include else 'no libnccl.so'
        else:
            version = re.findall(r'#define NCCL_(?:MAJOR|MINOR|PATCH) (\d+)', (self.nccl_include / 'nccl.h').read_text(errors='replace'))
            self.described.append(f'NCCL: {".".join(version[:3])}, {self.nccl}')
        self.headers = headers
        self.find_boosters()

    def find_boosters(self):
        self.boosters = {'xgboost': self.booster('xgboost', 'libxgboost.so'), 'lightgbm': self.booster('lightgbm', 'lib_lightgbm.so')}
        if self.boosters['xgboost']:
            self.check_xgboost()

    def booster(self, name, library):
        """The library in a Python package that boosts trees."""
        ended = self.steps.command(['python3', '-c', FIND_PACKAGE, name], 30, '/')
        folder = pathlib.Path(ended.output.strip()) if ended.status == 0 else None
        found = next((path for path in [folder / 'lib' / library, folder / library] if path.is_file()), None) if folder else None
        if not found:
            self.missing[name] = f'no Python package {name}' if not folder else f'no {library} in {folder}'
            return None
        self.described.append(f'{name}: {found}')
        return found

    def check_xgboost(self):
        """Its package has no headers. Those that are packed, or the system's, must be of the same major version."""
        folder = next((path for path in [self.headers, pathlib.Path('/usr/include')] if path and (path / 'xgboost/c_api.h').is_file()), None)
        if not folder:
            self.missing['xgboost'] = 'no xgboost/c_api.h; tests/gpu_kit/pack --include FOLDER packs it'
            return
        of_headers = re.search(r'XGBOOST_VER_MAJOR (\d+)', (folder / 'xgboost/version_config.h').read_text())[1]
        version = self.boosters['xgboost'].parents[1] / 'VERSION'
        of_library = version.read_text().strip() if version.is_file() else 'unknown'
        if of_library.split('.', maxsplit=1)[0] != of_headers:
            self.missing['xgboost'] = f'headers of XGBoost {of_headers}, and its package is {of_library}'

    def describe(self, command, pattern, name):
        """The first line that matches of what a command prints, if it is there and succeeds."""
        if shutil.which(command[0]):
            ended = self.steps.command(command, 30, ROOT)
            found = re.search(pattern, ended.output)
            if ended.status == 0 and found:
                self.described.append(f'{name}: {found[0]}')
                return found[0]
        self.described.append(f'{name}: none')
        return None

    def find_torch(self, prefix):
        if prefix:
            if not (prefix / 'include/torch/csrc/api/include/torch/torch.h').is_file():
                self.missing['torch'] = f'{prefix} holds no include/torch/csrc/api/include/torch/torch.h'
                return None
            self.new_abi = True
            self.described.append(f'LibTorch: {prefix}')
            return prefix
        ended = self.steps.command(['python3', '-c', ASK_TORCH], 120, '/')
        if ended.status != 0:
            self.missing['torch'] = f'python3 imports no torch: {(ended.output.strip().splitlines() or ["no end"])[-1]}'
            return None
        found = json.loads(ended.output.strip().splitlines()[-1])
        self.new_abi = found['new_abi']
        self.wheels = [pathlib.Path(folder) for folder in found['nvidia']]
        if not found['cuda']:
            self.missing['torch'] = f'torch {found["version"]} is built without CUDA'
            return None
        self.described.append(f'LibTorch: {found["version"]}, CUDA {found["cuda"]}, {"sees" if found["sees_gpu"] else "sees no"} GPU, {found["folder"]}')
        return pathlib.Path(found['folder'])

    def find_cuda(self, beside):
        paths = [shutil.which('nvcc'), '/usr/local/cuda/bin/nvcc', *pathlib.Path('/usr/local').glob('cuda-*/bin/nvcc'),
                 *(path / 'bin/nvcc' for path in beside)]
        self.nvcc = next((pathlib.Path(path).resolve() for path in paths if path and pathlib.Path(path).is_file()), None)
        self.cuda = self.nvcc.parent.parent if self.nvcc else None
        if self.nvcc:
            self.describe([self.nvcc, '--version'], r'release.*', 'nvcc')
        else:
            self.missing['cuda'] = 'no nvcc in PATH, /usr/local/cuda/bin or beside the package torch'

    def library(self, name):
        """Wheels bring libraries with their version alone, so each is linked by its path."""
        return next((path for folder in [*self.folders, pathlib.Path('/usr/lib/x86_64-linux-gnu')] for path in sorted(folder.glob(f'{name}*'))), None)

    def why_not(self, needs):
        return next((self.missing[need] for need in needs if need in self.missing), None)

    def compile_flags(self, with_torch):
        """As meson.build has them, but with neither compiled fmt nor compiled xxHash."""
        arguments = re.search(r'^raytrain_args = \[(.*?)\]', (ROOT / 'meson.build').read_text(), re.M | re.S)[1]
        folders = []
        # LibTorch's headers include the fmt beside them.
        if with_torch:
            folders += [self.torch_folder / 'include', self.torch_folder / 'include/torch/csrc/api/include']
        folders += [self.headers] if self.headers else []
        folders += [path for path in [self.cuda and self.cuda / 'include', self.nccl_include] if path and path != pathlib.Path('/usr/include')]
        return ['-std=c++20', '-w', '-pthread', '-DNDEBUG', *re.findall(r"'(-D[^']+)'", arguments), '-DRAYTRAIN_COMPILED', '-DFMT_HEADER_ONLY',
                '-DXXH_INLINE_ALL', *(['-DRAYTRAIN_COMPILED_TORCH'] if with_torch else []),
                *([] if not self.torch_folder or self.new_abi else ['-D_GLIBCXX_USE_CXX11_ABI=0']), '-I', ROOT / 'include',
                *(word for folder in dict.fromkeys(folders) for word in ('-isystem', folder))]

    def kernel_flags(self):
        # Where there is no GPU nvcc knows of none that would be the native one.
        return ['-std=c++20', '--expt-relaxed-constexpr', '-O2', '-Xcompiler', '-fPIC', '-I', ROOT / 'include',
                '-arch=native' if self.gpu else '-arch=sm_90']

    def link_flags(self, needs):
        # As old tags they hold for what the libraries load, too.
        words = ['-pthread', '-Wl,--disable-new-dtags', '-Wl,--allow-shlib-undefined', *(f'-Wl,-rpath,{folder}' for folder in self.folders)]
        if 'torch' in needs:
            # The shared libstdc++ of which LibTorch throws, also where this g++ would link its own one into programs; and before
            # LibTorch, which has functions of std::filesystem in it that end in a null pointer. libtorch.so has nothing else.
            words += ['-L', self.torch_folder / 'lib', '-Wl,--no-as-needed', self.library('libstdc++.so.6') or '-lstdc++',
                      '-ltorch_cpu', '-ltorch_cuda', '-lc10', '-lc10_cuda']
        words += [self.nccl] if 'nccl' in needs else []
        for library in [self.boosters[need] for need in needs if need in self.boosters]:
            words += [library, f'-Wl,-rpath,{library.parent}']
        # zlib and zstd are part of every system, their development files are not.
        return [*words, self.cudart, '-l:libz.so.1', '-l:libzstd.so.1', '-ldl', '-lrt']
