# SPDX-License-Identifier: Apache-2.0
"""Make src/trainlet/zoo/data/digits.npz: learn upright digits in floats, then quantize to int8.

    python scripts/train_digits.py

takes about a minute and gives the same bytes on every run. One thread, seeded, and PyTorch held
to the kernels that every x86-64 processor has, so that another one gives the same bytes too.
"""

from __future__ import annotations

import os

# Both must stand before PyTorch is loaded: no kernels chosen by processor, in ATen and in MKL.
os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["MKL_CBWR"] = "COMPATIBLE"

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from quantize_network import FloatNetwork, quantize, save_arrays
from torch import Tensor

from trainlet.learn.digits import Digits, load_digits
from trainlet.ops.requantize import FAST
from trainlet.zoo.digits import BLOCKS, CLASSES, FIRST_CONV, SIDE, assemble

TARGET = Path(__file__).resolve().parent.parent / "src/trainlet/zoo/data/digits.npz"
EPOCHS = 25
BATCH = 30
RATE = 0.05
SEED = 1
INPUT = (1 / 127.5, 0)


def main() -> None:
    """Train, quantize, say how good both are, and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # slow, and nothing reads it
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    torch.backends.nnpack.set_flags(False)
    splits = load_digits()
    network = train(splits.training, options.epochs)
    arrays = quantize(network, reals(splits.training), INPUT)
    save_arrays(options.output, arrays)
    report(network, arrays, splits.test)
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")


def reals(digits: Digits) -> Tensor:
    """What the network's int8 input stands for, [N, 1, H, W]: learn.images.to_int8, in reals."""
    return (torch.from_numpy(digits.images).permute(0, 3, 1, 2).float() - 128) * INPUT[0]


def train(digits: Digits, epochs: int) -> FloatNetwork:
    """SGD with momentum and a cosine rate; images are moved by up to two pixels."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    network = FloatNetwork(FIRST_CONV, BLOCKS, CLASSES)
    images, labels = reals(digits), torch.from_numpy(digits.labels)
    optimizer = torch.optim.SGD(network.parameters(), RATE, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        network.train()
        order = torch.randperm(len(digits), generator=generator)
        total = 0.0
        for batch in order.split(BATCH):
            x = moved(images[batch], generator)
            loss = F.cross_entropy(network(x), labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: loss {total / len(digits):.4f}", flush=True)
    return network.eval()


def moved(x: Tensor, generator: torch.Generator) -> Tensor:
    """The batch moved as a whole by up to two pixels each way; the edge is background."""
    down, right = (int(n) for n in torch.randint(0, 5, (2,), generator=generator))
    wide = F.pad(x, (2, 2, 2, 2), value=-128 * INPUT[0])
    return wide[:, :, down : down + SIDE, right : right + SIDE]


@torch.no_grad()
def report(network: FloatNetwork, arrays: dict[str, np.ndarray], digits: Digits) -> None:
    """Print both networks' accuracy on the upright test images."""
    integers = torch.from_numpy(digits.images).permute(0, 3, 1, 2).float() - 128
    labels = torch.from_numpy(digits.labels)
    small = assemble(arrays, CLASSES, SIDE, 0, FAST)
    for name, logits in (("float32", network(reals(digits))), ("int8", small(integers))):
        share = (logits.argmax(1) == labels).float().mean()
        print(f"{name}: {100 * float(share):.2f} % of {len(digits)} upright test images")
    parameters = sum(p.numel() for p in network.parameters())
    print(f"{parameters:,} parameters in floats, batch normalization included")


if __name__ == "__main__":
    main()
