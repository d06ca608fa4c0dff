"""The job file that `berth run` builds from its options, in OpenPAI's protocol."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from berth.errors import Misused

ROLE, IMAGE = "main", "image"
AMOUNT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[MG]?)", re.IGNORECASE)
VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One command, on equal tasks."""

    command: Sequence[str]
    image: str
    vc: str
    name: str = ""
    tasks: int = 1
    gpus: int = 1
    sku: str | None = None
    cpu: int | None = None
    memory: str | None = None
    env: Sequence[str] = ()
    priority: str | None = None
    time_limit: str | None = None
    borrow: bool = False
    retries: int = 0
    code: str | None = None

    def document(self) -> str:
        """The job file as YAML. Raises Misused."""
        amounts = {"cpu": self.cpu or 4 * self.gpus or 1, "memoryMB": self._memory_mb(), "gpu": self.gpus}
        scheduler: dict[str, Any] = {"jobPriorityClass": self.priority} if self.priority else {}
        if self.sku:
            scheduler["taskRoles"] = {ROLE: {"skuType": self.sku}}
        berth = {"timeLimit": self.time_limit} if self.time_limit else {}
        berth |= {"borrow": "auto"} if self.borrow else {}
        berth |= {"code": self.code} if self.code else {}
        extras = {"hivedScheduler": scheduler} if scheduler else {}
        extras |= {"berth": berth} if berth else {}
        job = {
            "protocolVersion": 2,
            "name": self.name or name_of(self.command),
            "type": "job",
            **({"jobRetryCount": self.retries} if self.retries else {}),
            "prerequisites": [{"name": IMAGE, "type": "dockerimage", "uri": self.image}],
            "taskRoles": {ROLE: self._role(amounts)},
            "defaults": {"virtualCluster": self.vc},
            **({"extras": extras} if extras else {}),
        }
        return str(yaml.safe_dump(job, sort_keys=False, allow_unicode=True))

    def _role(self, amounts: dict[str, int]) -> dict[str, Any]:
        commands = [*(_export(one) for one in self.env), shlex.join(self.command)]
        return {
            "instances": self.tasks,
            "dockerImage": IMAGE,
            "resourcePerInstance": amounts,
            "commands": commands,
        }

    def _memory_mb(self) -> int:
        if self.memory is None:
            return 16 * 1024 * self.gpus or 2048
        match = AMOUNT.fullmatch(self.memory.removesuffix("B").removesuffix("b"))
        if match is None or not float(match["number"]):
            raise Misused(f"--memory {self.memory}: write it as 64G or 512M")
        return int(float(match["number"]) * (1024 if match["unit"].upper() == "G" else 1))


def _export(text: str) -> str:
    match = VARIABLE.fullmatch(text)
    if match is None:
        raise Misused(f"--env {text}: write it as NAME=VALUE")
    return f"export {match['name']}={shlex.quote(match['value'])}"


def name_of(command: Sequence[str]) -> str:
    """A job's name from its program: `train` for `python train.py`."""
    words = [word for word in command if not word.startswith("-")]
    named = words[1] if len(words) > 1 and re.fullmatch(r"(python[0-9.]*|bash|sh|torchrun)", words[0]) else words[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "_", PurePosixPath(named).stem)[:255].strip("_") or "run"
