"""Who asks for more CPU or memory than goes with its GPUs is told so at submission."""

from __future__ import annotations

import pytest

from portal.job_file.shares import share_hints
from portal.job_file.validate import parse
from tests.support.cluster.job_files import Change, facts, job_file, server

VISION = ("defaults/virtualCluster", "vision")
TASK = "taskRoles/train/resourcePerInstance"
OPPO = ("extras/hivedScheduler/jobPriorityClass", "oppo")
REST = ": it starts where the rest is idle, and may be ended for a job that has a right to it."
ASKED: dict[str, tuple[list[Change], list[str]]] = {
    "no more than its share": ([(f"{TASK}/cpu", 16), (f"{TASK}/memoryMB", 65_536)], []),
    "more CPU": ([(f"{TASK}/cpu", 17)], ["wants 17 CPU, and the share of its GPUs is 16 CPU"]),
    "more memory": ([(f"{TASK}/memoryMB", 65_537)], ["wants 65537 MB, and the share of its GPUs is 65536 MB"]),
    "the same with two GPUs": ([(f"{TASK}/cpu", 17), (f"{TASK}/gpu", 2)], []),
    "no GPUs": ([(f"{TASK}/cpu", 17), (f"{TASK}/gpu", 0)], []),
    "all of it on loan": ([(f"{TASK}/cpu", 17), OPPO], []),
}


@pytest.mark.parametrize("case", ASKED)
def test_more_than_the_share_of_its_gpus(case: str) -> None:
    changes, told = ASKED[case]
    there = facts([server("a", 4, "A100", cpu=64, memory_mb=4 * 65_536)], {"vision": {"A100": 4}})
    hints = list(share_hints(parse(job_file(VISION, *changes), there), there))
    assert hints == [f"A task of train {words}{REST}" for words in told]
