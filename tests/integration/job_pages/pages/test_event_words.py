"""What happened to a job is told in the reader's language, also what its node said."""

from __future__ import annotations

import re

import pytest
from django.utils.translation import override

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.jobs import wordings
from portal.jobs.event_words import event_words
from portal.jobs.exits import verdict
from portal.jobs.problem_words import problem_words
from tests.support.cluster.world import World
from tests.support.people.pages import Browser
from tests.support.run.spoken import agents_say

ELSEWHERE = ("nodes/agent/sessions/", "nodes/agent/runtimes/docker/shell.py", "nodes/agent/runtimes/process/shell.py")
"""What ends a shell has codes of its own."""
PUT_TOGETHER = {"The task does not run on this node any more"}
CHINESE = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{2,}")


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
    failed = wordings.TASK_FAILED(task="worker/0", node="gpu01", why=told.sentence)
    message = wordings.REQUEUED(why=wordings.OTHERS_FAILED(why=failed, failed=2, instances=3))
    assert event_words(message) == message
    with override("zh-hans"):
        shown = event_words(message)
    assert shown.startswith("任务 worker/0 在 gpu01 上失败：")
    assert not ENGLISH.search(shown), shown


def test_names_and_what_people_wrote_stay_as_they_are() -> None:
    with override("zh-hans"):
        drained = wordings.NODE_DRAINED_FOR(node="gpu01", why="new fans come on Monday")
        assert event_words(drained).endswith("：new fans come on Monday。")
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
