"""What happened to servers and what is wrong with GPUs is told in the reader's language."""

from __future__ import annotations

import re

from django.utils.translation import override

from nodes.agent.hardware.gpus.health import LOST, RECOVERY, Signs, Xid, fault_of
from nodes.protocol.names import FOREIGN_PROCESS
from portal.hardware.health_words import health_words
from tests.support.cluster.world import World
from tests.support.people.pages import Browser
from tests.support.run.spoken import of_servers_written

PUT_TOGETHER = {
    "now X in X", "Node X: X.", "Node X: X", "X of X put back: X", "Node X is X", "on trial, another task",
    "tasks of X users", "X takes nothing new: X failed at the start (X).", "reports for the first time", "is back",
    "Node X X.", "is full: it takes nothing new", "has room again", "The disk for containers of X X.",
    "The unknown container of task attempt X is stopped",
}  # fmt: skip
"""Pieces of sentences that stand below as wholes."""
WHOLE = (
    "Node gpu01: expected.",
    "Node gpu01: now rack-node8 in rack.",
    "Node gpu01 reports for the first time.",
    "Node gpu01 is back.",
    "Node gpu01 is lost. No report since 12:00:00; given up after 60 s.",
    "Node gpu01 is lost. No report since 12:00:00; given up by root: Y",
    "Node gpu01 is accepted.",
    "Node gpu01 is draining.",
    "gpu01 takes nothing new: on trial, another task failed at the start (device fault).",
    "gpu01 takes nothing new: tasks of 3 users failed at the start (engine fault).",
    "The disk for containers of gpu01 is full: it takes nothing new.",
    "The disk for containers of gpu01 has room again.",
    "The unknown container of task attempt 5c2d is stopped.",
    "GPU 3 of gpu01: hardware error Xid 79 (2 in all).",
    "GPU 3 of gpu01: is well again.",
    f"the node says: {FOREIGN_PROCESS}4711 (python3)",
)
SIGNS = (
    Signs(recovery=99),
    Signs(remap_failed=True),
    Signs(remap_pending=True),
    Signs(xid=Xid(79, 1)),
    Signs(xid=Xid(79, 2)),
    Signs(uncorrected=3),
    Signs(mig=True, index=3),
)
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{2,}")


def test_every_sentence_that_is_stored_of_a_server_has_a_form_that_is_known() -> None:
    written = {text for _, text in of_servers_written()}
    assert len(written) > 25
    with override("zh-hans"):
        left = {one for one in written - PUT_TOGETHER if one in health_words(f"the node says: {one}")}
        assert left == set()
        assert [shown for one in WHOLE if ENGLISH.search(shown := health_words(one))] == []
        assert health_words("Node gpu01 is draining: new fans come").endswith("：new fans come")


def test_whatever_a_server_finds_wrong_with_a_gpu_has_a_form_that_is_known() -> None:
    told = {LOST, *RECOVERY.values(), *map(fault_of, SIGNS)}
    assert "" not in told
    with override("zh-hans"):
        assert {one for one in told if health_words(one) == one} == set()


def test_a_chinese_page_tells_what_happened_to_a_server_in_chinese(db: None) -> None:
    world = World()
    world.node("gpu01", gpus=1)
    page = Browser(world.user).get("/cluster/nodes/gpu01", accept_language="zh-CN")
    assert "节点 gpu01 首次报告。" in page.text
    assert "was registered" not in page.text
