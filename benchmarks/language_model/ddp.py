# SPDX-License-Identifier: Apache-2.0
"""The language model in Python: DistributedDataParallel over Gloo in two processes, with the network and rows of job.hpp.

  ddp.py STEPS STARTED_AT
"""
import json
import math
import pathlib
import resource
import sys
import tempfile
import time

import torch
import torch.multiprocessing
from torch import nn
from torch.nn import functional

WORKERS, WORKER_BATCH = 2, 8
CONTEXT, WIDTH, HEADS, LAYERS = 128, 128, 4, 2
LEARNING_RATE, LARGEST_NORM, SEED = 1e-3, 1, 1
WARM_UP, LAST = 5, 10


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.dense1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.dense2 = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, is_later):
        n, length, _ = x.shape
        q, k, v = self.attention(self.norm1(x)).view(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
        weights = torch.softmax(scores.masked_fill(is_later, -math.inf), -1)
        x = x + self.projection(torch.matmul(weights, v).transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.dense2(functional.gelu(self.dense1(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, 0, 0.02)

    def forward(self, text):
        length = text.shape[1]
        is_later = torch.ones(length, length, dtype=torch.bool, device=text.device).triu(1)
        x = self.bytes(text) + self.places(torch.arange(length, device=text.device))
        for layer in self.layers:
            x = layer(x, is_later)
        return torch.matmul(self.norm(x), self.bytes.weight.t())


def all_rows():
    files = sorted(path for path in pathlib.Path('/usr/share/common-licenses').iterdir() if path.is_file() and not path.is_symlink())
    text = b''.join(path.read_bytes() for path in files)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).unfold(0, CONTEXT + 1, CONTEXT)


def train(rank, store, steps, started_s, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', init_method=f'file://{store}', rank=rank, world_size=WORKERS)
    torch.manual_seed(SEED)
    model = nn.parallel.DistributedDataParallel(LanguageModel(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    rows, losses = all_rows(), []

    def step(number):
        first = (number * WORKERS + rank) * WORKER_BATCH
        chosen = torch.arange(first, first + WORKER_BATCH).mul(7919).remainder(rows.shape[0])
        batch = rows.index_select(0, chosen).to(torch.int64)
        loss = functional.cross_entropy(model(batch[:, :CONTEXT]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
        optimizer.step()
        losses.append(loss.item())

    step(0)
    first_step_s = time.monotonic() - started_s
    for number in range(1, WARM_UP):
        step(number)
    begin = time.monotonic()
    for number in range(WARM_UP, WARM_UP + steps):
        step(number)
    spent_s = time.monotonic() - begin
    loss = torch.tensor(sum(losses[-LAST:]) / LAST)
    torch.distributed.all_reduce(loss)
    if rank == 0:
        results.put({'bytes_per_s': steps * WORKERS * WORKER_BATCH * CONTEXT / spent_s, 'first_step_s': first_step_s,
                     'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 'loss': loss.item() / WORKERS})
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main(steps, started_s):
    context = torch.multiprocessing.get_context('spawn')
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (folder + '/store', steps, started_s, results), nprocs=WORKERS)
    print(json.dumps(results.get()))


if __name__ == '__main__':
    main(int(sys.argv[1]), float(sys.argv[2]))
