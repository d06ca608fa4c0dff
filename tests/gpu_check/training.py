"""Phase A: a training that is taken off its GPU in the middle, while another program fills the GPU, loses nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.gpu_check.bench import MIB, Bench, Program
from tests.gpu_check.failing import NotHere, fail
from tests.gpu_check.readings import charged, free_memory, resident

STEPS, PARKED_AT, PACE_MS = 150, 20, 20
MOST_HELD = 20 << 30
HELD, OTHER = 0.15, 0.6
"""Of the GPU's memory: what the training holds, and what another program holds meanwhile."""

GROWS_BY = 0.9, 1.15
"""The process' own memory grows by this much of what it held on the GPU, give or take a context (CONTEXT)."""

CONTEXT = 768 * MIB


def plain(bench: Bench) -> str:
    """The trainer that needs nothing but the driver."""
    reference = bench.start("--steps", STEPS)
    reference.wait_for_line("done")
    held = round(min(MOST_HELD, HELD * bench.gpu.total, 0.6 * free_memory()) / MIB)
    return parked(bench, reference, bench.start("--steps", STEPS, "--pace-ms", PACE_MS, "--mib", held))


def with_torch(bench: Bench) -> str:
    """A deterministic PyTorch training, its data from four processes, which inherit what it has open."""
    command = [torch_python(bench.torch_python), str(Path(__file__).with_name("torch_trainer.py"))]
    options = ["--steps", STEPS, "--workers", 4]
    reference = bench.start(*options, command=command)
    reference.wait_for_line("done")
    return parked(bench, reference, bench.start(*options, "--pace-ms", PACE_MS, command=command))


def parked(bench: Bench, reference: Program, training: Program) -> str:
    """Parks the training, fills the GPU, resumes it, and compares its losses with the other's. Raises Failed."""
    bench.end(reference)
    training.wait_for_steps(PARKED_AT)
    on_gpu, own, group = bench.gpu.used() - bench.idle, resident(training.pid), charged(training.pid)
    out = bench.park(training)
    steps, grew = len(training.losses()), resident(training.pid) - own
    bench.tell({"held_mib": on_gpu // MIB, "out_s": round(out, 2), "grew_mib": grew // MIB})
    if group is not None:
        bench.tell({"group_grew_mib": ((charged(training.pid) or 0) - group) // MIB})
    bench.expect_gone(training)
    if not GROWS_BY[0] * on_gpu - CONTEXT < grew < GROWS_BY[1] * on_gpu + CONTEXT:
        fail(f"{on_gpu // MIB:,} MiB left the GPU, and the process grew by {grew // MIB:,} MiB")
    neighbour(bench)
    if len(training.losses()) != steps:
        fail("it made steps while it was parked")
    back = bench.resume(training)
    bench.tell({"in_s": round(back, 2)})
    training.wait_for_line("done")
    same(training, reference)
    return (
        f"{on_gpu / 1e9:.1f} GB out in {out:.1f} s, back in {back:.1f} s; {STEPS} losses are the same to the last bit; "
        f"nothing stayed on the GPU; the process grew by {grew // MIB:,} MiB for {on_gpu // MIB:,}"
    )


def neighbour(bench: Bench) -> None:
    """Another program uses the GPU."""
    other = bench.start("--steps", 30, "--mib", round(OTHER * bench.gpu.total / MIB))
    if other.wait_for_line("memory") != "memory intact":
        fail("the other program's memory was damaged")
    bench.end(other)


def same(training: Program, reference: Program) -> None:
    pairs = zip(training.losses(), reference.losses(), strict=False)
    first = next((step for step, (one, other) in enumerate(pairs, 1) if one != other), None)
    if first is not None:
        fail(f"the losses differ from step {first} on; it was parked at about step {PARKED_AT}")
    if len(training.losses()) != len(reference.losses()):
        fail(f"{len(training.losses())} steps instead of {len(reference.losses())}")
    if training.wait_for_line("memory") != "memory intact":
        fail("the training's memory was damaged")


def torch_python(named: str) -> str:
    """A Python with PyTorch and CUDA: the one that was named, else this one, else the machine's. Raises NotHere."""
    program = "import torch; print(torch.cuda.is_available())"
    for python in [named] if named else [sys.executable, shutil.which("python3") or sys.executable]:
        ran = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
        if ran.stdout.strip() == "True":
            return python
    raise NotHere("no PyTorch with CUDA was found; TORCH_PYTHON=/its/python names one")
