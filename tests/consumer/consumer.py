# SPDX-License-Identifier: Apache-2.0
"""Builds a user's programs against an installed raytrain, or with it as a subproject, and runs them.

  consumer.py pkg_config|meson_dependency|meson_subproject|cmake BUILD_FOLDER library|torch_library|headers|torch_headers|definitions|torch_definitions|xgboost|lightgbm|images|parquet|mpi|no_mpi C++...

The folder of the kind is what a user writes; the programs are the same for all. MPIRUN starts those with MPI.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = {'library': ['compiled_program'], 'torch_library': ['compiled_program', 'compiled_torch_program'],
            'headers': ['core_program'], 'torch_headers': ['torch_program'],
            'definitions': ['defined_program'], 'torch_definitions': ['defined_program', 'defined_torch_program'],
            'xgboost': ['xgboost_program'], 'lightgbm': ['lightgbm_program'], 'images': ['images_program'],
            'parquet': ['parquet_program'], 'mpi': ['mpi_program']}
SKIPPED = 77


# Of programs whose own file has declarations alone, and another one the definitions: that file, and the options of both.
DEFINITIONS = {'defined_program': ('#include <raytrain/impl/src.hpp>\n', '-DRAYTRAIN_COMPILED'),
               'defined_torch_program': ('#include <raytrain/impl/src.hpp>\n#include <raytrain/impl/torch.hpp>\n',
                                         '-DRAYTRAIN_COMPILED -DRAYTRAIN_COMPILED_TORCH')}


class Failed(Exception):
    pass


def run(*command, folder, **environment):
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env={**os.environ, **environment}, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failed(f'{" ".join(words)}: exit status {done.returncode}\n{done.stdout}')
    return done.stdout


def install(build):
    """Installs into a folder of the build; the prefix in it."""
    with open(build / 'consumer.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = build / 'consumer' / 'installed'
        run('meson', 'install', '-C', build, '--no-rebuild', '--only-changed', f'--destdir={root}', folder=build)
    prefix = next(root.glob('**/include/raytrain')).parent.parent
    return prefix


def package_path(prefix):
    folders = {file.parent for file in prefix.rglob('raytrain*.pc')}
    return {'PKG_CONFIG_PATH': ':'.join(str(folder) for folder in folders)}


def build_pkg_config(work, prefix, programs, compiler):
    environment = package_path(prefix)
    for program in programs:
        package = {'compiled_program': 'raytrain-compiled', 'compiled_torch_program': 'raytrain-torch-compiled', 'torch_program': 'raytrain-torch',
                   'defined_torch_program': 'raytrain-torch', 'xgboost_program': 'raytrain-xgboost',
                   'lightgbm_program': 'raytrain-lightgbm', 'images_program': 'raytrain-images', 'parquet_program': 'raytrain-parquet',
                   'mpi_program': 'raytrain-mpi'}.get(program, 'raytrain')
        flags = run('pkg-config', '--cflags', '--libs', package, folder=work, **environment)
        files, options = f'{program}.cpp', ''
        if program in DEFINITIONS:
            text, options = DEFINITIONS[program]
            (work / f'definitions_of_{program}.cpp').write_text(text)
            files += f' definitions_of_{program}.cpp'
        # As in the README: the shell splits what pkg-config prints.
        run('bash', '-c', f'"$@" -std=c++20 {options} -o {program} {files} {flags.strip()}', '-', *compiler, folder=work)
    return work


def build_meson(work, prefix, programs, compiler):
    environment = package_path(prefix) if prefix else {}
    # The library of a subproject is one file to the compiler.
    run('meson', 'setup', 'out', '--buildtype=plain', '-Dunity=subprojects', '-Dunity_size=100', f'-Dprograms={",".join(programs)}', folder=work, **environment)
    run('ninja', '-C', 'out', *programs, folder=work)
    return work / 'out'


def build_cmake(work, prefix, programs, compiler):
    launcher = ['-DCMAKE_CXX_COMPILER_LAUNCHER=' + compiler[0]] if len(compiler) > 1 else []
    run('cmake', '-G', 'Ninja', '-S', '.', '-B', 'out', f'-DCMAKE_PREFIX_PATH={prefix}', '-DCMAKE_CXX_COMPILER=' + compiler[-1],
        f'-DPROGRAMS={";".join(programs)}', *launcher, folder=work)
    run('cmake', '--build', 'out', folder=work)
    return work / 'out'


def main(kind, build, what, *compiler):
    build = pathlib.Path(build).resolve()
    programs = PROGRAMS[what]
    work = build / 'consumer' / f'{what} by {kind}'
    shutil.rmtree(work, ignore_errors=True)
    if kind == 'pkg_config':
        work.mkdir(parents=True)
    else:
        shutil.copytree(HERE / kind, work)
    for program in programs:
        source = program.removeprefix('compiled_').removeprefix('defined_')
        source = 'core_program' if source == 'program' else source
        shutil.copy(HERE / f'{source}.cpp', work / f'{program}.cpp')
    if kind == 'meson_subproject':
        (work / 'subprojects').mkdir()
        (work / 'subprojects' / 'raytrain').symlink_to(ROOT)
        prefix = None
    else:
        prefix = install(build)
    built = {'pkg_config': build_pkg_config, 'cmake': build_cmake}.get(kind, build_meson)(work, prefix, programs, compiler)
    for program in programs:
        mpirun = [os.environ['MPIRUN'], '-n', 2] if program == 'mpi_program' else []
        # Programs of one source are two runs, which share no folder.
        home = work / f'home of {program}'
        home.mkdir()
        print(program + ':', run(*mpirun, built / program, folder=home).strip())
    shutil.rmtree(work)


if __name__ == '__main__':
    if sys.argv[3] == 'no_mpi':
        print('skipped: needs MPI and its mpirun (libopenmpi-dev, openmpi-bin)')
        sys.exit(SKIPPED)
    try:
        main(*sys.argv[1:])
    except Failed as failure:
        print(failure)
        sys.exit(1)
