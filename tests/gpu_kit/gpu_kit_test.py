# SPDX-License-Identifier: Apache-2.0
"""The GPU kit where there is no GPU: what pack writes runs, and a pretended compiler takes run through all ends of a program.

  gpu_kit_test.py CASE
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
loader = importlib.machinery.SourceFileLoader('gpu_kit_run', str(HERE / 'run'))
kit = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
sys.modules[loader.name] = kit
loader.exec_module(kit)
import steps  # noqa: E402

# "Compiles" a file into itself, and links into the program that the last object holds.
COMPILER = '''#!/bin/sh
for word; do
  case $before in -o) to=$word ;; -MF) echo "$to: $word" > "$word" ;; -c) from=$word ;; esac
  case $word in *.o) last=$word ;; esac
  before=$word
done
if [ -z "$from" ]; then cp "$last" "$to"; exit; fi
if grep -q planted "$from"; then echo "$from:1:7: error: planted"; exit 1; fi
echo "$from" >> COMPILED
cp "$from" "$to" && chmod +x "$to"
'''
SUMMARY = 'echo "[doctest] test cases: 3 | {} passed | {} failed | 0 skipped"'
PROGRAMS = {
    'good': SUMMARY.format(3, 0),
    'bad': 'planted',
    'failing': f'echo "TEST CASE:  a sum is wrong"; {SUMMARY.format(2, 1)}; exit 1',
    'without_gpu': 'echo "skipped: no GPU"; exit 77',
    'crashing': 'kill -SEGV $$',
    'endless': 'while :; do :; done',
    'empty': 'true',
    'figures': 'echo " workers  copy GB/s  of bound"; echo "       2    3000.5        98%"; echo "note of one column"',
}
EXPECTED = {
    'good': ('passed', '3 test cases'),
    'bad': ('failed', 'does not compile: bad.cpp:1: planted'),
    'failing': ('failed', '1 of 3 test cases: a sum is wrong'),
    'without_gpu': ('skipped', 'no GPU'),
    'crashing': ('failed', 'signal SIGSEGV'),
    'endless': ('failed', 'no end after '),
    'empty': ('failed', 'no test case ran'),
    'figures 2 workers': ('measured', '3000.5 copy GB/s, 98% of bound'),
    'script plain loop': ('measured', '71.5 steps/s'),
    'without_nccl': ('skipped', 'no nccl.h'),
}


class PretendedMachine:
    def __init__(self, compiler):
        self.compiler, self.nvcc = [compiler], compiler

    def compile_flags(self, _):
        return []

    def kernel_flags(self):
        return []

    def link_flags(self, _):
        return []

    def why_not(self, needs):
        return 'no nccl.h' if 'nccl' in needs else None


def must(what, found, expected):
    if found != expected:
        sys.exit(f'{what}: {found!r} instead of {expected!r}')


def every_end_has_its_row(folder):
    compiler = folder / 'compiler'
    compiler.write_text(COMPILER.replace('COMPILED', str(folder / 'compiled')))
    compiler.chmod(0o755)
    (folder / 'script.py').write_text(r"print('of CUDA\nplain loop\t71.5\tsteps/s')")
    programs = [kit.Program('without_nccl', [], ('nccl',)), kit.Program('script', [str(folder / 'script.py')], (), measures=True)]
    for name, script in PROGRAMS.items():
        (folder / f'{name}.cpp').write_text(f'#!/bin/sh\n{script}\n')
        programs.append(kit.Program(name, [folder / f'{name}.cpp'], (), measures=name == 'figures', limit_s=1 if name == 'endless' else 30))

    def run_all():
        steps = kit.Steps(folder / 'out', 60)
        # What the pretended tests say would be counted as tests of this project.
        with contextlib.redirect_stdout(io.StringIO()):
            kit.build_and_run(programs, PretendedMachine(compiler), steps, folder, 2)
        return {row.name: row for row in steps.rows}

    rows = run_all()
    for name, (outcome, detail) in EXPECTED.items():
        must(f'outcome of {name}', rows[name].outcome, outcome)
        must(f'detail of {name}', rows[name].detail[:len(detail)], detail)
    must('rows', set(rows), {*EXPECTED, 'everything built'})
    last = (folder / 'out/table.txt').read_text().splitlines()[-1]
    must('counts', last.rsplit(',', 1)[0], '1 passed, 5 failed, 2 skipped, 3 measured')
    compiled = (folder / 'compiled').read_text().splitlines()
    must('compiled twice', sorted(set(compiled)), sorted(compiled))
    run_all()
    must('compiled again', (folder / 'compiled').read_text().splitlines(), compiled)


def no_time_is_left(folder):
    steps = kit.Steps(folder, 0)
    must('end', str(steps.command(['true'], 10, folder)), 'no time was left for it')


def who_ends_run_ends_all(folder):
    """A terminated run ends what it has started, and leaves its table."""
    compiler = folder / 'endless'
    compiler.write_text(f'#!/bin/sh\necho $$ > {folder}/started\nwhile :; do :; done\n')
    compiler.chmod(0o755)
    run = subprocess.Popen([HERE / 'run', '--out', folder / 'out', '--build', folder / 'build'], env={**os.environ, 'CXX': str(compiler)},
                           stdout=subprocess.PIPE, text=True)
    while not (folder / 'started').is_file() or not (folder / 'started').read_text().endswith('\n'):
        must('end of run', run.poll(), None)
    run.terminate()
    printed = run.communicate()[0]
    must('exit status', run.returncode, 143)
    must('table', printed.rstrip().splitlines()[-1].startswith('0 passed'), True)
    must('table in its file', (folder / 'out/table.txt').read_text().splitlines()[-1][:8], '0 passed')
    compiler_process = pathlib.Path('/proc') / (folder / 'started').read_text().strip() / 'cmdline'
    must('what the compiler does', compiler_process.read_text() if compiler_process.is_file() else '', '')


def packed_tree_runs(folder):
    subprocess.run([HERE / 'pack', folder / 'kit.tar.gz'], check=True)
    with tarfile.open(folder / 'kit.tar.gz') as archive:
        archive.extractall(folder, **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))
    for header in ('asio.hpp', 'asio/io_context.hpp', 'cereal/cereal.hpp', 'fmt/format.h', 'doctest/doctest.h', 'xxhash.h', 'zlib.h', 'zconf.h', 'zstd.h', 'zstd_errors.h'):
        must(f'{header} is packed', (folder / 'raytrain/headers' / header).is_file(), True)
    run = folder / 'raytrain/tests/gpu_kit/run'
    listed = subprocess.check_output([run, '--list'], text=True).split()
    must('programs', {'gpu_collective', 'torch_alone', 'allreduce_device', 'xgboost_training', 'lightgbm_training'} - set(listed), set())
    must('chosen', subprocess.check_output([run, '--list', '--only', 'allreduce*'], text=True).split(), ['allreduce_device'])
    refused = subprocess.run([run, '--only', 'nothing'], text=True, capture_output=True, check=False)
    must('refusal', (refused.returncode, refused.stderr), (1, 'tests/gpu_kit/run: no program is called nothing; --list names them\n'))


def headers_alone_are_packed(folder):
    own = folder / 'own/xgboost'
    own.mkdir(parents=True)
    (own / 'c_api.h').touch()
    subprocess.run([HERE / 'pack', '--headers', '--include', own.parent, folder / 'headers.tar.gz'], check=True)
    shutil.rmtree(own.parent)
    headers = kit.unpacked(folder / 'headers.tar.gz', folder)
    must('headers', (headers / 'asio.hpp').is_file(), True)
    must('headers of the XGBoost that was named', [path.name for path in (headers / 'xgboost').iterdir()], ['c_api.h'])
    must('what else is packed', [path.name for path in folder.iterdir() if path.name not in ('headers', 'headers.tar.gz')], [])


def boosters_are_found_by_their_packages(folder):
    package = folder / 'xgboost'
    (package / 'lib').mkdir(parents=True)
    (package / 'lib/libxgboost.so').touch()
    headers = folder / 'headers/xgboost'
    headers.mkdir(parents=True)
    (headers / 'c_api.h').touch()
    (headers / 'version_config.h').write_text('#define XGBOOST_VER_MAJOR 3\n#define XGBOOST_VER_MINOR 2\n')

    class Pythons:
        """Python, which finds the package xgboost alone."""
        def command(self, words, *_):
            return steps.Ended(0, f'{package}\n', 0) if words[-1] == 'xgboost' else steps.Ended(1, 'AttributeError', 0)

    for version, reason in (('3.1.0', None), ('2.1.4', 'headers of XGBoost 3, and its package is 2.1.4')):
        (package / 'VERSION').write_text(f'{version}\n')
        machine = object.__new__(kit.Machine)
        machine.steps, machine.missing, machine.described, machine.headers = Pythons(), {}, [], folder / 'headers'
        machine.find_boosters()
        must(f'XGBoost {version}', machine.why_not(('xgboost',)), reason)
        must('its library', machine.boosters['xgboost'], package / 'lib/libxgboost.so')
        must('LightGBM', machine.why_not(('lightgbm',)), 'no Python package lightgbm')


CASES = {case.__name__: case for case in (every_end_has_its_row, no_time_is_left, who_ends_run_ends_all, packed_tree_runs, headers_alone_are_packed,
                                         boosters_are_found_by_their_packages)}

if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as scratch:
        CASES[sys.argv[1]](pathlib.Path(scratch))
