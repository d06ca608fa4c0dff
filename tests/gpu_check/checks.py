"""The checks, each run in a process of its own with a deadline. All deadlines together are less than ten minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.gpu_check import mishaps
from tests.gpu_check.bench import Bench
from tests.gpu_check.switching import switching
from tests.gpu_check.training import plain, with_torch

PHASES = {
    "facts": "what driver, GPU and agent tell",
    "A": "a training that is parked loses nothing",
    "B": "how long parking takes",
    "F": "what goes wrong, and what is left of it",
}


@dataclass(frozen=True, slots=True)
class Check:
    """``run`` returns what it found in a sentence; None: it needs no program on the GPU, and is in `one.py`.
    ``optional``: what it is about need not be there."""

    phase: str
    title: str
    limit_s: float
    run: Callable[[Bench], str] | None
    optional: bool = False


LOOK = Check("look", "which GPUs there are and who uses them", 20, None)

CHECKS = {
    "facts": Check("facts", "facts", 20, None),
    "A": Check("A", "a program of the driver's library", 70, plain),
    "A-torch": Check("A", "PyTorch, with four processes for its data", 100, with_torch, optional=True),
    "B": Check("B", "parked and resumed at several sizes", 170, switching),
    "F-kernel": Check("F", "a kernel longer than the lock's limit", 25, mishaps.long_kernel),
    "F-managed": Check("F", "managed memory", 20, mishaps.managed_memory),
    "F-full": Check("F", "restored while the GPU is full", 40, mishaps.full_gpu),
    "F-shared": Check("F", "memory shared by two processes", 25, mishaps.shared_memory, optional=True),
    "F-running": Check("F", "restored while it runs", 15, mishaps.not_parked),
    "F-gone": Check("F", "killed while it is parked", 15, mishaps.gone),
    "F-killed": Check("F", "killed after it was resumed", 20, mishaps.killed),
}
