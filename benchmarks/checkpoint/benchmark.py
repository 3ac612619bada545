# SPDX-License-Identifier: Apache-2.0
import shutil


def describe():
    return 'how long a checkpoint stops training, until it is on disk and to load it, against memcpy, torch::save and the disk (G4)'


def run(context):
    context.needs('checkpoint/checkpoint_cost', 'libtorch-dev')
    mebibytes, turns = (128, 2) if context.quick else (512, 3)
    runs = []
    for number in range(context.rounds):
        folder = f'run_{number}'
        run = context.program('checkpoint_cost', 'save', mebibytes, turns, folder)
        for who in ['raytrain', 'torch']:
            for file in ['cached', 'cold']:
                run[f'{who}_{file}_ms'] = context.program('checkpoint_cost', 'load', mebibytes, who, file, folder)['load_ms']
        runs.append(run)
        shutil.rmtree(f'{context.folder}/{folder}')
    context.versions['torch'] = runs[0]['torch']
    case = f'model of {mebibytes} MiB'

    def ratio(metric, over, under, goal=None, direction='higher'):
        context.row(case, metric, [run[over] / run[under] for run in runs], goal=goal, direction=direction)

    ratio('stop of training, times one memcpy', 'stall_ms', 'memcpy_ms', 1.15, 'lower')
    ratio('torch::save to memory, times that stop', 'torch_save_memory_ms', 'stall_ms', 8)
    ratio('torch::save to a file, times that stop', 'torch_save_file_ms', 'stall_ms')
    ratio('O_DIRECT + fsync of the bytes, part of the time until committed', 'direct_ms', 'durable_ms', 0.85)
    ratio('write + fsync of the bytes, part of the time until committed', 'write_ms', 'durable_ms')
    ratio('torch::load, times the verified load, of a cached file', 'torch_cached_ms', 'raytrain_cached_ms', 4)
    ratio('torch::load, times the verified load, from the disk', 'torch_cold_ms', 'raytrain_cold_ms')
    for metric, name in {'stop of training in ms': 'stall_ms', 'stop by the first one in ms': 'first_stall_ms',
                         'memcpy to warm memory in ms': 'memcpy_ms', 'torch::save to memory in ms': 'torch_save_memory_ms',
                         'torch::save to a file in ms': 'torch_save_file_ms', 'from report to commit in ms': 'durable_ms',
                         'write + fsync in ms': 'write_ms', 'O_DIRECT + fsync in ms': 'direct_ms',
                         'verified load of a cached file in ms': 'raytrain_cached_ms', 'torch::load of one in ms': 'torch_cached_ms',
                         'verified load from the disk in ms': 'raytrain_cold_ms', 'torch::load from it in ms': 'torch_cold_ms'}.items():
        context.row(case, metric, [run[name] for run in runs], direction='lower')
