# SPDX-License-Identifier: Apache-2.0
"""How a program is linked with a LibTorch that lies in a folder of its own, as Python's wheels have it, by CMake's raytrain::torch of an
installed raytrain and by meson's raytrain-torch of one as a subproject: with libraries that are empty but for their names.

  torch_wheel.py cmake|meson BUILD_FOLDER C++...
"""
import pathlib
import re
import shutil
import sys

from consumer import Failed, ROOT, install, run

CMAKE_LISTS = '''cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
find_package(raytrain 0.1 REQUIRED COMPONENTS torch)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE raytrain::torch)
'''
MESON_BUILD = '''project('consumer', 'cpp', default_options: ['cpp_std=c++20', 'b_asneeded=true'])
executable('program', 'program.cpp', dependencies: subproject('raytrain').get_variable('raytrain_torch_dep'))
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


def check_order(found, library):
    if library not in found or found.index('stdc++') > found.index(library):
        raise Failed(f'libstdc++ is not before {library}: {found}')


def with_cmake(work, prefix, compiler):
    """What CMake says of the libraries, and those that the program needs."""
    def configure(flags):
        return run('cmake', '-G', 'Ninja', '-S', '.', '-B', 'out', f'-DCMAKE_PREFIX_PATH={prefix}', f'-DTorch_DIR={work}/torch/share/cmake/Torch',
                   '-DCMAKE_CXX_COMPILER=' + compiler[-1], f'-DCMAKE_EXE_LINKER_FLAGS={flags}', folder=work)

    said = configure('-Wl,--no-as-needed')
    run('cmake', '--build', 'out', folder=work)
    found = needed('out/program', work)
    check_order(found, 'torch_cpu')
    configure('-Wl,--as-needed')
    run('cmake', '--build', 'out', folder=work)
    return said, needed('out/program', work)


def with_meson(work, _prefix, compiler):
    said = run('meson', 'setup', 'out', '--buildtype=plain', f'-Draytrain:torch={work}/torch', '-Draytrain:auto_features=disabled', folder=work)
    run('ninja', '-C', 'out', 'program', folder=work)
    found = needed('out/program', work)
    # What it installs for pkg-config says the same.
    flags = run('pkg-config', '--cflags', '--libs', 'raytrain-torch', folder=work, PKG_CONFIG_PATH=str(work / 'out' / 'meson-private'))
    run('bash', '-c', f'"$@" -std=c++20 -Wl,--as-needed -o out/again program.cpp {flags.strip()}', '-', *compiler, folder=work)
    if needed('out/again', work) != found:
        raise Failed(f'by pkg-config {needed("out/again", work)}, and by meson {found}')
    return said, found


def main(kind, build, *compiler):
    build = pathlib.Path(build).resolve()
    prefix = install(build) if kind == 'cmake' else None
    work = build / 'consumer' / {'cmake': 'torch wheel', 'meson': 'torch_wheel'}[kind]  # meson's files for pkg-config take no spaces
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / 'CMakeLists.txt').write_text(CMAKE_LISTS)
    (work / 'meson.build').write_text(MESON_BUILD)
    (work / 'subprojects').mkdir()
    (work / 'subprojects' / 'raytrain').symlink_to(ROOT)
    (work / 'program.cpp').write_text('#include <torch/torch.h>\n\n#include <string>\n\nint main(int, char** argv) { return std::string{argv[0]}.empty() ? 1 : 0; }\n')
    for gpu, lacks in [(False, False), (True, False), (True, True)]:
        make_wheel(work / 'torch', compiler, gpu=gpu, lacks=lacks)
        shutil.rmtree(work / 'out', ignore_errors=True)
        said, found = {'cmake': with_cmake, 'meson': with_meson}[kind](work, prefix, compiler)
        if ('torch_cuda' in found) != (gpu and not lacks) or ('c10_cuda' in found) != (gpu and not lacks):
            raise Failed(f'with a LibTorch {"of GPUs" if gpu else "of the CPU"}{", which lacks a library" if lacks else ""}: {found}')
        if gpu and not lacks:
            check_order(found, 'torch_cuda')
        if ('libdriver.so' in said) != lacks:
            raise Failed(f'{kind} does {"not " if lacks else ""}say that libdriver.so is missing:\n{said}')
        run(work / 'out/program', folder=work)
        print(f'GPUs {gpu}, lacks a library {lacks}: needs {", ".join(found)}')
    shutil.rmtree(work)


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except Failed as failure:
        print(failure)
        sys.exit(1)
