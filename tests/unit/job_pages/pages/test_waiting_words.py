"""Why a job waits, in the reader's language: each reason of the engine is worded anew from its code and numbers."""

from __future__ import annotations

import pytest
from django.utils import translation

from portal.jobs.models import Job
from portal.jobs.states import JobState
from portal.queue.wait_translations import why_waits
from scheduling.diagnosis import reasons as explain
from scheduling.model.plan import Code, Reason
from tests.unit.scheduling.builders import job

HOLE: dict[str, int | str] = {
    "sku": "A100",
    "tasks": 2,
    "needed": 4,
    "needed_in_all": 8,
    "largest": 3,
    "node": "gpu07",
    "free": 5,
}
ROOM: dict[str, int | str] = {
    "cpu_milli": 4000, "memory_mb": 8192, "tasks": 2, "node": "gpu07", "free_cpu_milli": 500, "free_memory_mb": 512,
}  # fmt: skip
KEPT = ROOM | {"kept_cpu_milli": 3000, "kept_memory_mb": 1024}
SICK: dict[str, int | str] = {"sku": "A100", "needed": 4, "free": 1, "unusable": 8, "nodes": 1, "where": "gpu03 (lost)"}
REASONS: dict[str, tuple[Reason, list[str]]] = {
    "paused": (explain.paused(), ["暂停"]),
    "after others": (explain.dependency(("7", "8")), ["2 个作业", "7"]),
    "no virtual cluster": (explain.no_virtual_cluster("vision"), ["vision"]),
    "quota in use": (explain.quota("vision", "A100", 3, 4, 2), ["4 个 A100 中的 3 个", "2 个"]),
    "beyond the quota": (explain.beyond_quota("vision", "A100", 4, 1, 8), ["拥有 4 个 A100", "需要 8 个"]),
    "beyond the cells": (explain.beyond_quota("vision", "A100", 8, 2, 4), ["8 个 A100", "最多 2 个相邻", "4 个"]),
    "no server": (explain.no_node(["gpu07", "gpu03"]), ["gpu03, gpu07"]),
    "no free cell": (explain.no_cell("vision", "A100", 4, 2, 4), ["最多 2 个相邻"]),
    "owed ahead": (explain.owed_ahead("vision", "A100", 4, 3, 0, 2), ["其中 3 个"]),
    "owed ahead, used": (explain.owed_ahead("vision", "A100", 4, 3, 1, 2), ["其中 1 个正由较低优先级使用"]),
    "user's limit": (explain.user_limit(job("1"), "A100", 3, 2, 4), ["最多 4 个"]),
    "class's limit": (explain.class_limit(job("1"), 100, 3, 2, 4), ["优先级不低于 100"]),
    "others ahead": (explain.order(3, 1, 0, 1), ["有 3 个", "1 个优先级更高，1 个由负责人排到前面，1 个提交更早"]),
    "lent out": (explain.lend_limit("A100", 3, 4, 2), ["已借出 3 个"]),
    "loans lost": (explain.loans_lost(3, 480_000), ["收回 3 次", "空闲 8 分钟的"]),
    "borrowed enough": (explain.borrow_limit("vision", "A100", 3, 4, 2), ["已借入 3 个"]),
    "reserved": (explain.reserved("7", 60_000, 0), ["作业 7", "1 分钟"]),
    "others leave": (explain.preempting(("7",), 2), ["2 个 GPU"]),
    "others leave the quota": (explain.taking_over(("7",)), ["作业 7", "即将启动"]),
    "no hole": (Reason(Code.FRAGMENTED, HOLE, "needs …"), ["2 个任务", "8 个 A100", "gpu07", "3 个"]),
    "nothing free": (Reason(Code.FRAGMENTED, HOLE | {"largest": 0}, "needs …"), ["没有此类 GPU 空闲"]),
    "sick nodes": (Reason(Code.BAD_NODES, SICK, "needs …"), ["8 个无法使用", "gpu03"]),
    "sick nodes of the quota": (
        explain.doomed(Reason(Code.BAD_NODES, SICK, "needs …"), "vision", "A100", 5),
        ["8 个无法使用", "5 个 A100"],
    ),
    "no room": (Reason(Code.RESOURCES, ROOM, "needs …"), ["4 个 CPU", "8 GB", "0.5 个 CPU", "512 MB"]),
    "no room beside idle GPUs": (
        Reason(Code.RESOURCES, KEPT, "needs …"),
        ["0.5 个 CPU", "3 个 CPU", "1 GB", "空闲 GPU"],
    ),
    "no room since another has more than its share": (
        Reason(Code.RESOURCES, ROOM | {"job": "7", "beyond_cpu_milli": 44_000, "beyond_memory_mb": 0}, "needs …"),
        ["作业 7", "44 个 CPU"],
    ),
    "no room together": (
        Reason(Code.RESOURCES, ROOM | {"all_cpu_milli": 9000, "all_memory_mb": 2048}, "needs …"),
        ["9 个 CPU", "2 GB"],
    ),
}


def waits(reason: Reason) -> Job:
    return Job(
        state=JobState.WAITING, waiting_code=reason.code, waiting_message=reason.sentence,
        waiting_numbers=dict(reason.numbers),
    )  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_is_told_in_chinese_with_its_numbers_and_in_english_as_it_was_written(name: str) -> None:
    reason, words = REASONS[name]
    assert why_waits(waits(reason)) == reason.sentence
    with translation.override("zh-hans"):
        told = why_waits(waits(reason))
    assert told != reason.sentence
    assert [one for one in words if one not in told] == [], told


def test_a_reason_of_which_only_the_sentence_is_known_stays_as_it_is() -> None:
    held = Reason(Code.DEPENDENCY, {}, "it needs alice/a#1, which ended as failed")
    with translation.override("zh-hans"):
        assert why_waits(waits(held)) == held.sentence
