# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
GOALS = {
    'resnet18 raytrain / plain': 0.99,
    'language model raytrain / plain': 0.99,
    'mlp 2 workers, exchange automatic, against 1': 1.3,
    'mlp 4 workers, exchange automatic, against 1': 1.3,
    'copies that steps hide': 95,
}


def describe():
    return "training on one GPU, against plain LibTorch and Python's DistributedDataParallel; workers that share it"


def run(context):
    context.needs('gpu/train', 'libtorch-dev')
    figures = figures_of(context, context.build / 'benchmarks/gpu/train')
    if not figures:
        context.skip('LibTorch sees no GPU')
    for python in context.pythons_with_torch().values():
        twin = figures_of(context, python, '-B', HERE / 'ddp_twin.py')
        if not twin:
            continue
        for network in ('resnet18', 'language model'):
            ratio = figures[f'{network} raytrain'][0] / twin[f'{network} Python DDP'][0]
            context.row(f'{network} raytrain / Python DDP', 'times', [ratio], goal=1.0)
        figures.update(twin)
        break
    else:
        print('DistributedDataParallel is left out: no Python has PyTorch that sees the GPU')
    for name, (value, unit) in figures.items():
        context.row(name, unit, [value], goal=GOALS.get(name), direction='lower' if unit == 'ms' else 'higher')


def figures_of(context, *command):
    """What a program prints, a median of its own turns each: the value and its unit, by name. Nothing where it sees no GPU."""
    done = subprocess.run([str(word) for word in command], cwd=context.folder, text=True, capture_output=True, check=False)
    if done.returncode == SKIPPED:
        return {}
    if done.returncode != 0:
        context.fail(f'{command[-1]}: exit status {done.returncode}\n{done.stdout}{done.stderr}')
    lines = [line.split('\t') for line in done.stdout.splitlines() if line.count('\t') == 2]
    return {name: (float(value), unit) for name, value, unit in lines}
