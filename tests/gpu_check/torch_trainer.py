"""A deterministic PyTorch training with data from other processes: the lines of trainer.py, by a program as users have
them. It needs PyTorch alone; `--device cpu` is for trying it without a GPU."""

from __future__ import annotations

import argparse
import os
import threading
import time
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS is not deterministic

import torch  # noqa: E402
from torch.nn import Linear, ReLU, Sequential  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

WIDTH, LAYERS, CLASSES, BATCH = 1024, 8, 10, 256
HELD = torch.Size([1 << 28])
"""A gigabyte of numbers beside the network."""


class Numbers(Dataset):  # type: ignore[misc, unused-ignore] # a base without types where PyTorch is not installed
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index)), index % CLASSES


def end_with_input() -> None:
    """Not through sys.stdin, whose lock would be held for ever in the processes that are forked for the data."""
    while os.read(0, 1):
        pass
    os._exit(3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pace-ms", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    threading.Thread(target=end_with_input, daemon=True).start()
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    held = torch.full(HELD, 7.0, device=asked.device)
    layers = [layer for _ in range(LAYERS) for layer in (Linear(WIDTH, WIDTH), ReLU())]
    network = Sequential(*layers, Linear(WIDTH, CLASSES)).to(asked.device)
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
    batches = iter(DataLoader(Numbers(), BATCH, num_workers=asked.workers))
    print("ready", flush=True)
    for step in range(1, asked.steps + 1):
        inputs, wanted = (one.to(asked.device) for one in next(batches))
        loss = cross_entropy(network(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item().hex()}", flush=True)
        time.sleep(asked.pace_ms / 1000)
    print("memory intact" if bool((held == 7.0).all()) else "memory damaged")
    print("done", flush=True)


if __name__ == "__main__":
    main()
