# SPDX-License-Identifier: Apache-2.0
"""The two networks of train.cpp in Python: DistributedDataParallel over NCCL, in a world of one on one GPU.

Python's optimizers step all parameters by few kernels; LibTorch's have some for each, as have the rows with foreach=False.
"""
import pathlib
import statistics
import sys
import time

SKIPPED = 77
try:
    import torch
except ImportError:
    print('skipped: python3 imports no torch')
    sys.exit(SKIPPED)
from torch import nn
from torch.nn import functional

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'language_model'))
from ddp import CONTEXT, LanguageModel  # noqa: E402

WARM_UP, BLOCK, BLOCKS = 20, 50, 5


def convolution(fan_in, out, size, stride):
    return nn.Conv2d(fan_in, out, size, stride, padding=size // 2, bias=False)


class ResidualBlock(nn.Module):
    def __init__(self, fan_in, out, stride):
        super().__init__()
        self.conv1, self.norm1 = convolution(fan_in, out, 3, stride), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = convolution(out, out, 3, 1), nn.BatchNorm2d(out)
        changes = stride != 1 or fan_in != out
        self.shortcut = nn.Sequential(convolution(fan_in, out, 1, stride), nn.BatchNorm2d(out)) if changes else nn.Identity()

    def forward(self, x):
        direct = self.shortcut(x)
        x = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(x)) + direct)


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = convolution(3, 64, 3, 1), nn.BatchNorm2d(64)
        blocks, fan_in = [], 64
        for out in (64, 128, 256, 512):
            blocks += [ResidualBlock(fan_in, out, 1 if out == 64 else 2), ResidualBlock(out, out, 1)]
            fan_in = out
        self.blocks, self.output = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, images):
        x = self.blocks(torch.relu(self.norm(self.stem(images))))
        return functional.log_softmax(self.output(x.mean((2, 3))), 1)


class ImageJob:
    name, model, precision = 'resnet18', ResNet18, None

    def __init__(self, device):
        self.images = torch.randn(128, 3, 32, 32, device=device)
        self.labels = torch.randint(10, (128,), device=device)

    def loss(self, model):
        return functional.nll_loss(model(self.images), self.labels)

    @staticmethod
    def optimizer(parameters, foreach):
        return torch.optim.SGD(parameters, 0.01, momentum=0.9, foreach=foreach)


class TextJob:
    name, model, precision = 'language model', LanguageModel, torch.bfloat16

    def __init__(self, device):
        self.text = torch.randint(256, (64, CONTEXT + 1), device=device)

    def loss(self, model):
        return functional.cross_entropy(model(self.text[:, :-1]).flatten(0, 1), self.text[:, 1:].flatten())

    @staticmethod
    def optimizer(parameters, foreach):
        return torch.optim.AdamW(parameters, 1e-3, foreach=foreach)


def print_row(name, value, unit):
    print(f'{name}\t{value:.5g}\t{unit}', flush=True)


def measure(job, device, foreach, steps_per_s, host_s):
    """A block of a new training, behind its warm-up."""
    model = nn.parallel.DistributedDataParallel(job.model().to(device), device_ids=[device] if device.type == 'cuda' else None)
    optimizer = job.optimizer(model.parameters(), foreach)

    def step():
        with torch.autocast(device.type, dtype=job.precision, enabled=job.precision is not None):
            loss = job.loss(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        host_s.append(time.perf_counter() - begin)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(BLOCK):
        step()
    torch.cuda.synchronize()
    steps_per_s.append(BLOCK / (time.perf_counter() - begin))


def main():
    if not torch.cuda.is_available():
        print('skipped: no GPU')
        return SKIPPED
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device('cuda', 0)
    torch.manual_seed(1)
    torch.distributed.init_process_group('nccl', store=torch.distributed.HashStore(), rank=0, world_size=1, device_id=device)
    for job in (ImageJob(device), TextJob(device)):
        for foreach in (None, False):
            steps_per_s, host_s = [], []
            for _ in range(BLOCKS):
                measure(job, device, foreach, steps_per_s, host_s)
            name = f'{job.name} Python DDP' + (', foreach=False' if foreach is False else '')
            print_row(name, statistics.median(steps_per_s), 'steps/s')
            print_row(f'{name} host time of a step', statistics.median(host_s) * 1e3, 'ms')
    torch.distributed.destroy_process_group()
    return 0


if __name__ == '__main__':
    sys.exit(main())
