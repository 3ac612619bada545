# SPDX-License-Identifier: Apache-2.0
"""How CMake's raytrain::torch links a program with a LibTorch that lies in a folder of its own, as Python's wheels have it: beside an
installed raytrain, with libraries that are empty but for their names.

  torch_wheel.py BUILD_FOLDER C++...
"""
import pathlib
import re
import shutil
import sys

from consumer import Failed, install, run

CMAKE_LISTS = '''cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
find_package(raytrain 0.1 REQUIRED COMPONENTS torch)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE raytrain::torch)
'''


def make_wheel(folder, compiler, *, gpu, lacks):
    """Each library is empty; that of GPUs may need one that is not there."""
    shutil.rmtree(folder, ignore_errors=True)
    header = folder / 'include/torch/csrc/api/include/torch/torch.h'
    header.parent.mkdir(parents=True)
    header.write_text('')
    libraries = folder / 'lib'
    libraries.mkdir()
    (libraries / 'empty.cpp').write_text('')

    def make(name, *more):
        run(*compiler, '-shared', '-fPIC', '-nostdlib', f'-Wl,-soname,lib{name}.so', '-o', f'lib{name}.so', 'empty.cpp', *more, folder=libraries)

    for name in ['torch_cpu', 'c10'] + ['c10_cuda', 'driver'] * gpu:
        make(name)
    if gpu:
        make('torch_cuda', '-L.', '-Wl,--no-as-needed', '-ldriver', f'-Wl,-rpath,{libraries}')
    if lacks:
        (libraries / 'libdriver.so').unlink()


def needed(program, folder):
    """The libraries that the loader looks for, in its order."""
    return re.findall(r'\(NEEDED\).*\[lib([^\]]+)\.so', run('readelf', '-d', program, folder=folder))


def main(build, *compiler):
    build = pathlib.Path(build).resolve()
    prefix = install(build)
    work = build / 'consumer' / 'torch wheel'
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / 'CMakeLists.txt').write_text(CMAKE_LISTS)
    (work / 'program.cpp').write_text('#include <string>\nint main(int, char** argv) { return std::string{argv[0]}.empty() ? 1 : 0; }\n')
    for gpu, lacks in [(False, False), (True, False), (True, True)]:
        make_wheel(work / 'torch', compiler, gpu=gpu, lacks=lacks)
        shutil.rmtree(work / 'out', ignore_errors=True)
        said = run('cmake', '-G', 'Ninja', '-S', '.', '-B', 'out', f'-DCMAKE_PREFIX_PATH={prefix}', f'-DTorch_DIR={work}/torch/share/cmake/Torch',
                   '-DCMAKE_CXX_COMPILER=' + compiler[-1], '-DCMAKE_EXE_LINKER_FLAGS=-Wl,--no-as-needed', folder=work)
        run('cmake', '--build', 'out', folder=work)
        found = needed('out/program', work)
        if 'torch_cpu' not in found or found.index('stdc++') > found.index('torch_cpu'):
            raise Failed(f'libstdc++ is not before LibTorch: {found}')
        run('cmake', '-S', '.', '-B', 'out', '-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed', folder=work)
        run('cmake', '--build', 'out', folder=work)
        found = needed('out/program', work)
        if ('torch_cuda' in found) != (gpu and not lacks) or ('c10_cuda' in found) != (gpu and not lacks):
            raise Failed(f'with a LibTorch {"of GPUs" if gpu else "of the CPU"}{", which lacks a library" if lacks else ""}: {found}')
        if ('libdriver.so' in said) != lacks:
            raise Failed(f'CMake does {"not " if lacks else ""}say that libdriver.so is missing:\n{said}')
        run(work / 'out/program', folder=work)
        print(f'GPUs {gpu}, lacks a library {lacks}: needs {", ".join(found)}')
    shutil.rmtree(work)


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except Failed as failure:
        print(failure)
        sys.exit(1)
