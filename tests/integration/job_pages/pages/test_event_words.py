"""What happened to a job is told in the reader's language, also what its node said."""

from __future__ import annotations

import re

import pytest
from django.utils.translation import override

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.jobs.event_words import event_words
from portal.jobs.exits import verdict
from portal.jobs.problem_words import problem_words
from tests.support.cluster.world import World
from tests.support.people.pages import Browser
from tests.support.run.spoken import agents_say, events_written

ELSEWHERE = ("nodes/agent/sessions/", "nodes/agent/runtimes/docker/shell.py", "nodes/agent/runtimes/process/shell.py")
"""What ends a shell has codes of its own."""
PUT_TOGETHER = {
    "Node X is drained", "Its X X been below X % for X.", "is stopped", "becomes opportunistic", "it works",
    "they work", "It X at X UTC unless X again.", "its X X below X % for X; policy of X; warned at X UTC.",
    "the owner's ", "Moved X X in the queue by X.", " X of X tasks of this role failed.", "Paused: X",
    "X of X X taken back for it by X UTC", " with status X", "X and X", "X minuteX", "X: X",
    "The task does not run on this node any more", "which is owed the X that it had on loan", "CPU or memory",
}  # fmt: skip
"""Pieces of sentences that stand below as wholes, lists of names, and what a terminal tells by a code."""
WHOLE = (
    "Its 2 GPUs have been below 5 % for 61 minutes. It is stopped at 2026-11-23 12:00 UTC unless they work again.",
    "Its 1 GPU has been below 5 % for 1 minute. It becomes opportunistic at 2026-11-23 12:00 UTC unless it works "
    "again.",
    "Stopped: its 2 GPUs were below 5 % for 61 minutes; policy of the cluster; warned at 11:00 UTC.",
    "Put off by alice for 60 minutes. It is stopped at 2026-11-23 12:00 UTC unless they work again.",
    "Its GPUs work again. The job stays opportunistic until this attempt ends.",
    "Moved to the front of the owner's Test jobs of vision by alice.",
    "Moved before alice/train#1 in the queue by bob.",
    "Node gpu01 is drained.",
    "Task worker/1 on gpu01: ended with status 3 (exited).",
    "Task worker/1: Preempted by a job of alice in vision (2 GPUs), which has a higher priority. It is tried again.",
    "Preempted by bob/prod#1, which is owed the CPU or memory that it had on loan.",
    "1 GPU of alice/train#1 is taken back for it by 12:00:00 UTC.",
    "2 GPUs of alice/train#1 are taken back for it by 12:00:00 UTC.",
    "Paused: vision has no storage data any more; it has: none. Ask an administrator, then resume the job.",
    "alice/train#1 submitted to vision: 1 task, 1 GPU.",
    "alice/train#1 submitted to vision: 2 tasks.",
)
CHINESE = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{2,}")


def test_every_sentence_that_is_stored_of_a_job_has_a_form_that_is_known() -> None:
    written = {text for _, text in events_written()}
    assert len(written) > 60
    assert unknown(written - PUT_TOGETHER) == set()
    with override("zh-hans"):
        assert [shown for one in WHOLE if ENGLISH.search(shown := event_words(one))] == []


def test_every_sentence_of_a_node_has_a_form_that_is_known() -> None:
    said = {text for path, text in agents_say() if not path.startswith(ELSEWHERE) and not of_docker(path, text)}
    assert len(said) > 30
    assert unknown(said - PUT_TOGETHER) == set()


def unknown(texts: set[str]) -> set[str]:
    """Those that have no form, neither alone nor as what is filled in."""
    with override("zh-hans"):
        return {one for one in texts if event_words(one) == one and one in event_words(f"Stopped: {one}")}


def of_docker(path: str, text: str) -> bool:
    """Whether it is by this that the Engine's own words are known."""
    return path.endswith("docker/faults.py") and "X" not in text


@pytest.mark.parametrize("cause", Cause)
def test_a_verdict_is_told_with_what_the_node_added(cause: Cause) -> None:
    told = verdict(cause, 139, "a GPU of this task is still held by x-1" if cause is not Cause.STOPPED else "")
    message = f"Attempt 2 ended: Task worker/0 failed on gpu01: {told.sentence} 2 of 3 tasks of this role failed."
    assert event_words(message) == message
    with override("zh-hans"):
        shown = event_words(f"{message} The job waits again, with the time of its submission.")
    assert shown.startswith("第 2 次尝试已结束：任务 worker/0 在 gpu01 上失败：")
    assert not ENGLISH.search(shown), shown


def test_names_and_what_people_wrote_stay_as_they_are() -> None:
    with override("zh-hans"):
        assert event_words("Node gpu01 is drained: new fans come on Monday.").endswith("：new fans come on Monday。")
        assert event_words("something else") == problem_words("something else") == "something else"


@pytest.mark.django_db
def test_a_chinese_page_tells_events_and_the_end_in_chinese_the_api_in_english(world: World) -> None:
    node = world.nodes["gpu01"]
    job = world.submit(gpu=1)
    world.settle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.EXITED, code=127, message="a command was not found (exit status 127)"))
    node.report()
    world.settle()
    job.refresh_from_db()
    assert job.end_message.startswith("Task worker/0 failed on gpu01: exit status 127 (an error): a command")
    browser = Browser(world.user)
    for path in (f"/jobs/{job.pk}", f"/jobs/{job.pk}/events", "/jobs?state=failed"):
        page = browser.get(path, accept_language="zh-CN")
        assert "任务 worker/0 在 gpu01 上失败：退出状态 127（错误）：未找到命令" in page.text, path
        assert "command" not in page.text.replace("commands", ""), path
