# SPDX-License-Identifier: Apache-2.0
"""Nets of Python predict the same in C++ by their safetensors files, and the other way about; Adadelta steps as Python's:

  models_in_python.py PROGRAM

PyTorch is Python's own, safetensors too, or the one that ./setup fetches.
"""
import math
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

SKIPPED = 77

sys.path.append(str(pathlib.Path(__file__).parents[2] / 'build' / 'safetensors'))
try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f'needs the Python package {missing.name}: python3-torch of Debian, safetensors of PyPI')
    sys.exit(SKIPPED)
nn = torch.nn


class SmallNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.mlp = nn.Sequential(nn.Linear(4 * 6 * 6, 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, images):
        return self.mlp(torch.relu(self.norm(self.convolution(images))).flatten(1))


def random_gpt2(words, places, width, layers):
    """The tensors of a small GPT-2, as Hugging Face's transformers store them: with masks, and without the head, whose
    weight is that of the embedding."""
    sizes = {'wte.weight': (words, width), 'wpe.weight': (places, width), 'ln_f.weight': (width,), 'ln_f.bias': (width,)}
    for layer in range(layers):
        sizes |= {f'h.{layer}.{name}': size for name, size in {
            'ln_1.weight': (width,), 'ln_1.bias': (width,), 'ln_2.weight': (width,), 'ln_2.bias': (width,),
            'attn.c_attn.weight': (width, 3 * width), 'attn.c_attn.bias': (3 * width,),
            'attn.c_proj.weight': (width, width), 'attn.c_proj.bias': (width,),
            'mlp.c_fc.weight': (width, 4 * width), 'mlp.c_fc.bias': (4 * width,),
            'mlp.c_proj.weight': (4 * width, width), 'mlp.c_proj.bias': (width,)}.items()}
    tensors = {name: 0.3 * torch.randn(size) for name, size in sizes.items()}
    tensors |= {f'h.{layer}.attn.bias': torch.ones(places, places).tril().bool().view(1, 1, places, places) for layer in range(layers)}
    return tensors


def gpt2(tensors, tokens, heads, layers):
    """What a GPT-2 of these tensors predicts of the next tokens."""
    width = tensors['wte.weight'].shape[1]

    def normed(name, x):
        return nn.functional.layer_norm(x, (width,), tensors[name + '.weight'], tensors[name + '.bias'])

    def dense(name, x):
        return x @ tensors[name + '.weight'] + tensors[name + '.bias']

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

    length = tokens.shape[1]
    x = tensors['wte.weight'][tokens] + tensors['wpe.weight'][:length]
    for layer in range(layers):
        part = f'h.{layer}'
        queries, keys, values = (each.view(*each.shape[:2], heads, width // heads).transpose(1, 2)
                                 for each in dense(part + '.attn.c_attn', normed(part + '.ln_1', x)).split(width, dim=2))
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(width // heads)
        mask = tensors[part + '.attn.bias'][:, :, :length, :length]
        mixed = torch.where(mask, scores, torch.tensor(-1e9)).softmax(-1) @ values
        x = x + dense(part + '.attn.c_proj', mixed.transpose(1, 2).flatten(2))
        x = x + dense(part + '.mlp.c_proj', gelu(dense(part + '.mlp.c_fc', normed(part + '.ln_2', x))))
    return normed('ln_f', x) @ tensors['wte.weight'].T


def write_adadelta(folder):
    """Where it begins, the gradients of its steps, and where it ends."""
    parameter = nn.Parameter(torch.randn(7))
    gradients = torch.randn(20, 7)
    first = parameter.detach().clone()
    optimizer = torch.optim.Adadelta([parameter], lr=0.7, rho=0.8, eps=1e-5, weight_decay=0.1)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    save_file({'first': first, 'gradients': gradients, 'last': parameter.detach().clone()}, folder / 'adadelta.safetensors')


def write_nets(folder):
    torch.manual_seed(1)
    net = SmallNet(3)
    for _ in range(3):
        net(torch.rand(5, 1, 8, 8))  # the statistics of its norm are others than at the beginning
    net.eval()
    rows = torch.rand(5, 1, 8, 8)
    save_file(net.state_dict(), folder / 'python.safetensors')
    save_file({'rows': rows, 'predicted': net(rows).detach()}, folder / 'python_samples.safetensors')
    torch.jit.script(net).save(str(folder / 'script.pt'))

    tensors = random_gpt2(words=11, places=8, width=12, layers=2)
    (folder / 'gpt2').mkdir()
    save_file({f'transformer.{name}': tensor for name, tensor in tensors.items()}, folder / 'gpt2' / 'model.safetensors',
              metadata={'format': 'pt'})
    tokens = torch.randint(11, (2, 7))
    save_file({'rows': tokens, 'predicted': gpt2(tensors, tokens, heads=3, layers=2)}, folder / 'gpt2_samples.safetensors')


def read_net(folder):
    net = SmallNet(3)
    net.load_state_dict(load_file(folder / 'ours.safetensors'))
    net.eval()
    samples = load_file(folder / 'our_samples.safetensors')
    furthest = (net(samples['rows']) - samples['predicted']).abs().max().item()
    print(f'ours.safetensors in PyTorch {torch.__version__}: differs by {furthest:.2g} at most, after {net.norm.num_batches_tracked} batches')
    if not furthest < 1e-5 or net.norm.num_batches_tracked != 6 or samples['predicted'].std() < 0.01:
        sys.exit(f'C++: {samples["predicted"]}\nPython: {net(samples["rows"])}')


with tempfile.TemporaryDirectory() as name:
    there = pathlib.Path(name)
    write_nets(there)
    write_adadelta(there)
    status = subprocess.run([sys.argv[1], name], stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        sys.exit(f'exit status {status}')
    read_net(there)
