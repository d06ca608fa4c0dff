"""What happened to a job is told in the reader's language, also what its node said."""

from __future__ import annotations

import re

import pytest
from django.utils.translation import override

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from nodes.protocol.wordings import GPU_HELD, NOT_FOUND
from portal.common.sentences import worded
from portal.jobs import wordings
from portal.jobs.exits import verdict
from portal.jobs.problem_words import problem_words
from tests.support.cluster.world import World
from tests.support.people.pages import Browser

CHINESE = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{2,}")


@pytest.mark.parametrize("cause", Cause)
def test_a_verdict_is_told_with_what_the_node_added(cause: Cause) -> None:
    detail = GPU_HELD(other="x-1") if cause is not Cause.STOPPED else ""
    told = verdict(cause, 139, detail)
    failed = wordings.TASK_FAILED(task="worker/0", node="gpu01", why=told.sentence)
    message = wordings.REQUEUED(why=wordings.OTHERS_FAILED(why=failed, failed=2, instances=3))
    assert worded(message) == message
    with override("zh-hans"):
        shown = worded(message)
    assert shown.startswith("任务 worker/0 在 gpu01 上失败：")
    assert not ENGLISH.search(shown), shown


def test_names_and_what_people_wrote_stay_as_they_are() -> None:
    with override("zh-hans"):
        drained = wordings.NODE_DRAINED_FOR(node="gpu01", why="new fans come on Monday")
        assert worded(drained).endswith("：new fans come on Monday。")
        assert worded("something else") == problem_words("something else") == "something else"


@pytest.mark.django_db
def test_a_chinese_page_tells_events_and_the_end_in_chinese_the_api_in_english(world: World) -> None:
    node = world.nodes["gpu01"]
    job = world.submit(gpu=1)
    world.settle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.EXITED, code=127, message=NOT_FOUND()))
    node.report()
    world.settle()
    job.refresh_from_db()
    assert job.end_message.startswith("Task worker/0 failed on gpu01: exit status 127 (an error): a command")
    browser = Browser(world.user)
    for path in (f"/jobs/{job.pk}", f"/jobs/{job.pk}/events", "/jobs?state=failed"):
        page = browser.get(path, accept_language="zh-CN")
        assert "任务 worker/0 在 gpu01 上失败：退出状态 127（错误）：未找到命令" in page.text, path
        assert "command" not in page.text.replace("commands", ""), path
