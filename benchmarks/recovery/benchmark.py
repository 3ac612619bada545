# SPDX-License-Identifier: Apache-2.0
import pathlib
import shutil
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
from time_line import time_line  # noqa: E402

GOALS = {('threads', 'throw'): ('an exception, threads', None, 50), ('processes', 'throw'): ('an exception, processes', None, 50),
         ('processes', 'kill'): ('a killed process', 10, 500), ('processes', 'stop'): ('a process stopped by SIGSTOP', 1000, 1500),
         ('mpirun', 'throw'): ('an exception, supervised ranks', None, 50), ('mpirun', 'kill'): ('a killed rank, supervised', 10, 500),
         ('mpirun', 'stop'): ('a rank stopped by SIGSTOP, supervised', 1000, 1500),
         ('threads', 'resize'): ('another number of threads', None, 50), ('processes', 'resize'): ('another number of processes', None, 500),
         ('mpirun', 'resize'): ('another number of supervised ranks', None, 1000)}


HERE = pathlib.Path(__file__).parent


def describe():
    return ('from the failure of one of two workers, or the wish for another number of them, to the next step of all, against a shell '
            "that starts a program again and torchrun's elastic agent")


def torch_python(context):
    """A Python that has torchrun as PyTorch 2 has it; notes its version, or leaves the rows out and says so."""
    for version, python in context.pythons_with_torch().items():
        if int(version.split('.')[0]) >= 2:
            context.versions['PyTorch of torchrun'] = version
            return python
    own = context.build / 'torch-python'
    print(f'torchrun is left out: no python3 has PyTorch 2. To have it: apt-get install python3-venv && python3 -m venv {own} && {own}/bin/pip install torch')
    return None


def torchrun_rows(context, resizes, by_torchrun):
    """The same change by torchrun; `resizes`: raytrain's figures by their case."""
    case = 'a third worker by a second agent of torchrun'
    step = [each['step_ms'] for each in by_torchrun]
    after_end = [each['step_after_end_ms'] for each in by_torchrun]
    context.row(case, 'next step after ms', step, direction='lower')
    context.row(case, 'next step ms after the end of a worker', after_end, direction='lower')
    for case, figures in resizes.items():
        context.row(case, 'times as fast as torchrun', [t / each['step_ms'] for t, each in zip(step, figures)])
        context.row(case, 'times as fast from the end of a worker',
                    [t / (each['step_ms'] - each['ended_ms']) for t, each in zip(after_end, figures)])


def state_rows(context, by_copies, mebibytes):
    """A large state; figures by CheckpointConfig::memory_copies."""
    for copies, origin in ((0, 'the disk'), (1, "a neighbour's memory")):
        case = f'a killed process, a state of {mebibytes} MiB from {origin}'
        for metric, moment in (('workers begin after ms', 'begun_ms'), ('state there after ms', 'loaded_ms'), ('next step after ms', 'step_ms')):
            context.row(case, metric, [each[moment] for each in by_copies[copies]], direction='lower')
    for metric, part in (('times as fast to the next step', lambda each: each['step_ms']),
                         ('times as fast to load it', lambda each: each['loaded_ms'] - each['begun_ms'])):
        context.row(f"{mebibytes} MiB from a neighbour's memory and not from the disk", metric,
                    [part(disk) / part(memory) for disk, memory in zip(by_copies[0], by_copies[1])])


def run(context):
    programs = context.build / 'benchmarks' / context.name
    has_ranks = (programs / 'recovery_by_hand_ranks').exists()
    mebibytes, python = 128, torch_python(context)

    def state(copies, number):
        folder = f'state_{copies}_{number}'
        figures = context.program('recovery_state', mebibytes, copies, folder)
        shutil.rmtree(pathlib.Path(context.folder, folder))
        return figures

    hows = [how for how in GOALS if has_ranks or how[0] != 'mpirun']
    sides = {how: lambda number, how=how: context.program('recovery_raytrain', *how, '_'.join([*how, str(number)]), env=context.mpirun_env())
             for how in hows}
    sides |= {('state', copies): lambda number, copies=copies: state(copies, number) for copies in [0, 1]}
    sides['by hand'] = lambda number: context.command('bash', '-c', '! "$0" "$1" && exec "$0" "$1"', programs / 'recovery_by_hand',
                                                      f'by_hand_{number}')['step_ms']
    if has_ranks:
        sides['ranks by hand'] = lambda number: context.command(
            'bash', '-c', '! mpirun -n 2 "$0" "$1" && exec mpirun -n 2 "$0" "$1"', programs / 'recovery_by_hand_ranks', f'by_hand_ranks_{number}',
            env=context.mpirun_env())['step_ms']
    if python:
        sides['torchrun'] = lambda number: context.command(python, '-B', HERE / 'torchrun.py', f'torchrun_{number}')
    gave = context.in_turns(sides)
    drawn = {}
    for how in hows:
        figures = gave[how]
        case, noticed_ms, step_ms = GOALS[how]
        context.row(case, 'noticed after ms', [each['noticed_ms'] for each in figures], goal=noticed_ms, direction='lower')
        context.row(case, 'next step after ms', [each['step_ms'] for each in figures], goal=step_ms, direction='lower')
        drawn[case] = sorted(figures, key=lambda each: each['step_ms'])[len(figures) // 2]
        context.row(case, 'steps done again', [each['lost_reports'] for each in figures], direction='lower')
    state_rows(context, {copies: gave['state', copies] for copies in [0, 1]}, mebibytes)
    context.row('a killed program, started again by a shell', 'next step after ms', gave['by hand'], direction='lower')
    if has_ranks:
        context.row('a killed rank of a plain MPI program, started again by a shell', 'next step after ms', gave['ranks by hand'], direction='lower')
    if python:
        torchrun_rows(context, {GOALS[how][0]: gave[how] for how in hows if how[1] == 'resize'}, gave['torchrun'])
    picture = context.build / 'benchmarks' / 'recovery.svg'
    picture.write_text(time_line(drawn))
    print(f'drawn in {picture}')
