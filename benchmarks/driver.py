# SPDX-License-Identifier: Apache-2.0
"""Builds and runs benchmarks, prints a table for a person and writes build/benchmarks/NAME.json.

A benchmark is a folder benchmarks/NAME/ with

  meson.build   the programs: raytrain's and its twins. Each prints one JSON object and nothing else, checks
                its own result and exits non-zero when that is wrong. With `build_by_default: false`, so that only
                benchmarks/run builds them; all targets of the folder are built before benchmark.py runs.
  benchmark.py  with `describe() -> str`, one line, and `run(context) -> None`:

    def describe():
        return 'what fit() costs against the same loop written by hand (G3)'

    def run(context):
        step_us = context.in_turns({
            'ours': lambda _: context.program('ours', '--steps', 100)['step_us'],
            'twin': lambda _: context.program('by_hand', '--steps', 100)['step_us']})
        context.row('10 ms steps', 'overhead in %', [100 * (o / t - 1) for o, t in zip(step_us['ours'], step_us['twin'])],
                    goal=0.2, direction='lower')   # median and worst of the per-round figures
        context.row('10 ms steps', 'step in us', step_us['ours'])   # without a goal: for orientation

Context:
  build, rounds, quick            the build folder, the number of rounds, whether --quick or --check was given
  in_turns({side: turn})          lets all sides take turns, 5 rounds, 3 with --quick, 1 with --check; each turn is called with the
                                  number of its round, from 0. What they gave, by side
  program(name, *args, env={})    runs build/benchmarks/NAME/name, the JSON object that it printed; stops on a failure
  command(*args, env={})          the same for any command
  text(*args, env={})             what any command printed
  mpirun_env()                    variables for a command that is mpirun, or that starts one
  skip(reason)                    ends the benchmark where it cannot run, which is no failure
  needs(program, *packages)       skips it where build/benchmarks/program is not built, for want of these packages
  fail(reason)                    ends it where something went wrong
  pythons_with(module)            each Python that has the module, by its version: those in build/*-python, and the system's
  pythons_with_torch()            the same for PyTorch
  make(*targets)                  builds what else the benchmark runs, by ninja's names
  folder                          a folder below build/, the working directory of the programs; removed at the end
  row(case, metric, values, goal=None, direction='higher')
  versions                        a dict shown in the header of the table: add what the programs said
"""
import argparse
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / 'build'
ROUNDS, QUICK_ROUNDS = 5, 3


class Failed(Exception):
    """A program of a benchmark failed, or its result was wrong."""


class Skipped(Exception):
    """A benchmark cannot run here."""


class Context:
    def __init__(self, name, rounds, folder, versions):
        self.name, self.rounds, self.folder, self.versions = name, rounds, folder, versions
        self.build, self.quick, self.rows = BUILD, rounds < ROUNDS, []

    def in_turns(self, sides):
        gave = {side: [] for side in sides}
        for number in range(self.rounds):
            # Who begins changes, so that a machine that slows down is not one side's.
            first = number % len(sides)
            for side in [*sides][first:] + [*sides][:first]:
                gave[side].append(sides[side](number))
        return gave

    def program(self, name, *arguments, env=None):
        return self.command(BUILD / 'benchmarks' / self.name / name, *arguments, env=env)

    def text(self, *arguments, env=None):
        """What a command printed; stops when it fails."""
        command = [str(argument) for argument in arguments]
        try:
            done = subprocess.run(command, cwd=self.folder, env={**os.environ, **(env or {})}, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        except OSError as error:
            raise Failed(f'{command[0]}: {error.strerror}') from None
        if done.returncode != 0:
            raise Failed(f'{" ".join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}')
        return done.stdout

    def command(self, *arguments, env=None):
        printed = self.text(*arguments, env=env)
        try:
            return json.loads(printed)
        except ValueError:
            raise Failed(f'{" ".join(map(str, arguments))}: its output is not a JSON object\n{printed}') from None

    @staticmethod
    def mpirun_env():
        """What lets mpirun start more ranks than there are cores."""
        lines = (BUILD.parent / 'mpirun.env').read_text().splitlines()
        return dict(line.split('=', 1) for line in lines if not line.startswith('#'))

    def pythons_with_torch(self):
        return self.pythons_with('torch.distributed')

    @staticmethod
    def pythons_with(module):
        found = {}
        for python in (*sorted(BUILD.glob('*-python/bin/python')), 'python3', '/usr/bin/python3'):
            asked = subprocess.run([python, '-c', f'import {module}; print({module.split(".")[0]}.__version__)'], text=True,
                                   capture_output=True, check=False) if shutil.which(python) else None
            if asked and asked.returncode == 0:
                found.setdefault(asked.stdout.strip(), python)
        return found

    def make(self, *targets):
        build(list(targets))

    @staticmethod
    def skip(reason):
        raise Skipped(reason)

    def needs(self, program, *packages):
        if (BUILD / 'benchmarks' / program).exists():
            return
        options = json.loads(subprocess.check_output(['meson', 'introspect', '--buildoptions', str(BUILD)], text=True))
        torch = next(option['value'] for option in options if option['name'] == 'torch')
        if 'libtorch-dev' in packages and torch not in ('auto', 'enabled'):
            self.skip(f"{program} needs Debian's LibTorch, and build/ was set up with -Dtorch={torch}")
        self.skip(f'{program} is not built: apt-get install --no-install-recommends {" ".join(packages)}')

    @staticmethod
    def fail(reason):
        raise Failed(reason)

    def row(self, case, metric, values, goal=None, direction='higher'):
        value = statistics.median(values)
        row = {'case': case, 'metric': metric, 'value': value,
               'worst': min(values) if direction == 'higher' else max(values),
               'best': max(values) if direction == 'higher' else min(values), 'rounds': len(values)}
        if goal is not None:
            met = value >= goal if direction == 'higher' else value <= goal
            row.update({'goal': goal, 'direction': direction, 'met': met})
        self.rows.append(row)


def build(targets):
    jobs = os.environ.get('RAYTRAIN_JOBS')
    ninja = ['ninja', '-C', str(BUILD), *(['-j', jobs] if jobs else [])]
    if targets and subprocess.run([*ninja, '-n', *targets], capture_output=True, text=True,
                                  check=False).stdout.find('no work to do') < 0:
        print('Building', *map(os.path.basename, targets), '...', file=sys.stderr, flush=True)
        done = subprocess.run(['setpriv', '--pdeathsig', 'TERM', *ninja, *targets], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f'{done.stdout}{done.stderr}')


def targets_of(folder):
    """The programs whose source lies in a folder of benchmarks/, as ninja names them."""
    targets = json.loads(subprocess.check_output(['meson', 'introspect', '--targets', str(BUILD)], text=True))
    sources = ROOT / 'benchmarks' / folder
    return [str(pathlib.Path(file).relative_to(BUILD)) for target in targets if target['type'] == 'executable'
            and any(sources in pathlib.Path(source).parents for part in target['target_sources']
                    for source in part.get('sources', [])) for file in target['filename']]


def host():
    model = re.search(r'^model name\s*: (.*)$', pathlib.Path('/proc/cpuinfo').read_text(), re.M)
    load = os.getloadavg()[0]
    build(['benchmarks/barrier'])
    barrier = json.loads(subprocess.check_output([str(BUILD / 'benchmarks' / 'barrier')], text=True))
    return {'cpu': model[1] if model else platform.machine(), 'cores': len(os.sched_getaffinity(0)), 'load1': load, **barrier}


def versions_of_host():
    wanted = ['libtorch-dev', 'libopenblas0-openmp', 'libopenblas0-pthread', 'libopenblas0-serial', 'libasio-dev',
              'libcereal-dev', 'libfmt-dev']
    lines = subprocess.run(['dpkg-query', '-W', '-f', '${db:Status-Abbrev}|${Package}|${Version}\n', *wanted],
                           capture_output=True, text=True, check=False).stdout.splitlines()
    versions = {name: version for status, name, version in (line.split('|') for line in lines) if status[1] == 'i'}
    commands = json.loads((BUILD / 'compile_commands.json').read_text())
    words = next(entry['command'] for entry in commands if entry['file'].endswith('barrier.cpp')).split()
    compiler = next(word for word in words if not word.endswith('ccache'))
    versions['compiler'] = subprocess.check_output([compiler, '--version'], text=True).splitlines()[0]
    versions['flags'] = ' '.join(word for word in words if re.match(r'-(O|std|march|mtune|f|DNDEBUG)', word)
                                 and 'diagnostics' not in word)
    if 'OPENBLAS_CORETYPE' in os.environ:
        versions['OPENBLAS_CORETYPE'] = os.environ['OPENBLAS_CORETYPE']
    return versions


def table(rows):
    def text(value):
        if isinstance(value, bool):
            return 'yes' if value else 'NO'
        return f'{value:.4g}' if isinstance(value, float) else str(value)

    head = ['case', 'metric', 'value', 'worst', 'best', 'goal', 'met']
    sign = {'higher': '>= ', 'lower': '<= '}
    lines = [head]
    for row in rows:
        cells = [text(row[name]) for name in head[:5]]
        cells += [sign[row['direction']] + text(row['goal']), text(row['met'])] if 'goal' in row else ['', '']
        lines.append(cells)
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print('  '.join(cell.ljust(width) if i < 2 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(line, widths))).rstrip())


def load_benchmark(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / 'benchmarks' / name / 'benchmark.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_benchmark(name, rounds):
    print(f'== {name}: {load_benchmark(name).describe()}', flush=True)
    build(targets_of(name))
    machine, versions = host(), versions_of_host()
    # What is to be on a disk would be in memory where /tmp is.
    with tempfile.TemporaryDirectory(prefix='files_', dir=BUILD / 'benchmarks') as folder:
        machine['files on'] = subprocess.check_output(['df', '--output=fstype', folder], text=True).split()[-1]
        context = Context(name, rounds, folder, versions)
        load_benchmark(name).run(context)
    print(', '.join(f'{key} {value:.3g}' if isinstance(value, float) else f'{key} {value}' for key, value in machine.items()))
    print(', '.join(f'{key} {value}' for key, value in versions.items()) + '\n')
    table(context.rows)
    out = BUILD / 'benchmarks' / f'{name}.json'
    out.write_text(json.dumps({'benchmark': name, 'quick': context.quick, 'host': machine, 'versions': versions,
                               'rows': context.rows}, indent=1) + '\n')
    print(f'\nwritten to {out}\n', flush=True)
    return [{**row, 'case': f"{name}: {row['case']}"} for row in context.rows]


def say_goals(rows):
    """How many goals of several benchmarks were met, and the rows of the others."""
    with_goal = [row for row in rows if 'goal' in row]
    missed = [row for row in with_goal if not row['met']]
    print(f'== Of {len(with_goal)} goals {len(with_goal) - len(missed)} were met.' + (' Not met:' if missed else ''), flush=True)
    if missed:
        table(missed)


def main():
    sys.dont_write_bytecode = True
    names = sorted(path.parent.name for path in (ROOT / 'benchmarks').glob('*/benchmark.py'))
    parser = argparse.ArgumentParser(prog='benchmarks/run')
    parser.add_argument('--quick', action='store_true', help='fewer rounds: at most a minute per benchmark')
    parser.add_argument('--check', action='store_true', help='one round, to see that it runs: the figures say little')
    parser.add_argument('names', nargs='*', metavar='NAME', help='benchmarks to run, or all; none: list them')
    options = parser.parse_args()
    if not options.names:
        for name in names:
            print(f'  {name:<20} {load_benchmark(name).describe()}')
        return 0
    wanted = names if options.names == ['all'] else options.names
    for name in wanted:
        if name not in names:
            print(f"There is no benchmark '{name}'. There are: {', '.join(names)}", file=sys.stderr)
            return 2
    rounds = 1 if options.check else QUICK_ROUNDS if options.quick else ROUNDS
    status, rows = 0, []
    for name in wanted:
        try:
            rows += run_benchmark(name, rounds)
        except Skipped as reason:
            print(f'skipped: {reason}\n', flush=True)
        except Failed as failure:
            print(f'{name} failed: {failure}', file=sys.stderr, flush=True)
            status = 1
        except KeyboardInterrupt:
            print(f'{name} was interrupted', file=sys.stderr, flush=True)
            return 130
    if len(wanted) > 1:
        say_goals(rows)
    return status


if __name__ == '__main__':
    sys.exit(main())
