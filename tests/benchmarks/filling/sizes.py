"""How much there shall be, and what jobs are like."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

NODE_GPUS = 8
GPU_SIZES = (8, 4, 2, 1)
NAMES = (
    *("train-resnet50", "train-llama-7b", "train-llama-70b", "finetune-qwen", "finetune-whisper", "eval-mmlu"),
    *("eval-imagenet", "preprocess-audio", "preprocess-web", "tokenize", "sweep-lr", "sweep-batch", "distill"),
    *("render-views", "segment-scans", "fold-proteins", "debug", "notebook", "export-onnx", "benchmark-nccl"),
)
"""Names of jobs; each comes again and again, as people run things again."""


class NotFilled(Exception):
    """The database was not filled, or not whole; says why."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows. ``days``: how far back the finished jobs go."""

    finished: int = 1_000_000
    waiting: int = 10_000
    running: int = 1_600
    users: int = 500
    vcs: int = 50
    nodes: int = 1_024
    days: int = 365
    seed: int = 1

    def problems(self) -> list[str]:
        """Why this cannot be filled, in sentences that name the options."""
        found = []
        for name in ("users", "vcs", "nodes", "days"):
            if getattr(self, name) < 1:
                found.append(f"--{name} must be at least 1, not {getattr(self, name)}")
        for name in ("finished", "waiting", "running"):
            if getattr(self, name) < 0:
                found.append(f"--{name} must be at least 0, not {getattr(self, name)}")
        if found:
            return found
        if self.users < self.vcs:
            found.append(f"--users {self.users} is too few: each of the {self.vcs} virtual clusters needs a lead")
        if self.vc_gpus < 1:
            found.append(f"--nodes {self.nodes} have {self.gpus} GPUs, fewer than --vcs {self.vcs}")
        elif self.running and not self.vcs * self.vc_gpus / NODE_GPUS <= self.running <= self.vcs * self.vc_gpus:
            found.append(
                f"--running {self.running} cannot fill the nodes with jobs of 1 to {NODE_GPUS} GPUs: "
                f"the {self.vcs} virtual clusters have {self.vc_gpus} GPUs each"
            )
        elif self.waiting and not self.running:
            found.append("--waiting needs --running: on idle nodes no job waits")
        return found

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return self.nodes * NODE_GPUS

    @property
    def vc_gpus(self) -> int:
        """What each virtual cluster is guaranteed: whole nodes, where there are enough."""
        whole = self.nodes // self.vcs * NODE_GPUS
        return whole or self.gpus // self.vcs


@dataclass(frozen=True, slots=True)
class Shape:
    """What a job asks for: equal tasks, each with so many GPUs."""

    gpus: int
    tasks: int = 1


def job_file(*, name: str, vc: str, shape: Shape) -> str:
    """A job file of this shape."""
    job = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pytorch/pytorch:2.5.1-cuda12.4"}],
        "taskRoles": {
            "worker": {
                "instances": shape.tasks,
                "dockerImage": "image",
                "resourcePerInstance": {"cpu": 4 * shape.gpus, "memoryMB": 16384 * shape.gpus, "gpu": shape.gpus},
                "commands": ["python train.py --config configs/base.yaml --output /work/out"],
            }
        },
        "defaults": {"virtualCluster": vc},
        "extras": {"gangAllocation": True},
    }
    return yaml.safe_dump(job, sort_keys=False)
