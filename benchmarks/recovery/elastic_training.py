# SPDX-License-Identifier: Apache-2.0
"""The training of raytrain.cpp as PyTorch's tutorial on torchrun has it: rank 0 saves a snapshot of each epoch, and each start
goes on from it. Two workers wait in epoch 20 for the third. Argument: folder."""
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

EPOCHS, LAST_EPOCH_BEFORE = 40, 20  # as in moments.hpp


def note(folder, what):
    now = time.monotonic_ns()
    with open(folder / 'moments', 'a', encoding='ascii') as file:
        file.write(f'{what} {now}\n')


def main():
    folder = pathlib.Path(sys.argv[1])
    snapshot = folder / 'snapshot.pt'
    dist.init_process_group('gloo')
    rank, world_size = dist.get_rank(), dist.get_world_size()
    values, first = torch.ones(1 << 16), 0
    if snapshot.exists():
        loaded = torch.load(snapshot)
        values, first = loaded['values'], loaded['epoch'] + 1
    for epoch in range(first, EPOCHS):
        if world_size == 2 and epoch == LAST_EPOCH_BEFORE:
            note(folder, f'waits_{os.getpid()}')
            while True:
                dist.barrier()
        dist.all_reduce(values)
        values /= world_size
        if world_size == 3 and epoch == first and rank == 0:
            note(folder, 'step')
        values += 1
        if rank == 0:
            torch.save({'values': values, 'epoch': epoch}, snapshot)
    dist.destroy_process_group()
    right = world_size == 3 and first == LAST_EPOCH_BEFORE and bool((values == 1 + EPOCHS).all())
    return 0 if right else 'the values, or the epoch that three workers began with, are not those of an undisturbed training'


if __name__ == '__main__':
    sys.exit(main())
