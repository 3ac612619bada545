# SPDX-License-Identifier: Apache-2.0
import shutil

CASES = {'threads': 'threads', 'processes': 'processes', 'mpirun': 'supervised ranks'}


def describe():
    return 'how soon a worker that hangs is noticed, ended and replaced, and how often one is that does not (G9)'


def run(context):
    has_ranks = shutil.which('mpirun') is not None
    seconds = 5 if context.quick else 60
    figures = context.in_turns({
        launch: lambda number, launch=launch: context.program('hang', launch, f'{launch}_{number}', env=context.mpirun_env())
        for launch in CASES if has_ranks or launch != 'mpirun'})
    alarms = context.in_turns({
        launch: lambda number, launch=launch: context.program('overload', launch, seconds, f'overload_{launch}_{number}')
        for launch in ['threads', 'processes']})
    for launch, runs in figures.items():
        case = f'an endless loop, {CASES[launch]}'
        context.row(case, 'warned of after ms, without a setting', [each['warned_ms'] for each in runs], goal=1000, direction='lower')
        context.row(case, 'failed after ms, hang_timeout 1500', [each['failed_ms'] for each in runs], goal=1700, direction='lower')
        context.row(case, 'next step after ms', [each['step_ms'] for each in runs], goal=500, direction='lower')
    for launch, runs in alarms.items():
        case = f'two other processes on each core, {CASES[launch]}'
        context.row(case, 'warned of in vain, in all rounds', [sum(each['warned'] for each in runs)], goal=0, direction='lower')
        context.row(case, 'ended in vain, hang_timeout 1000, in all rounds', [sum(each['ended'] for each in runs)], goal=0, direction='lower')
