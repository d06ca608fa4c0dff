"""What happened to servers and what is wrong with GPUs is told in the reader's language."""

from __future__ import annotations

from django.utils.translation import override

from nodes.agent.hardware.gpus.health import LOST, RECOVERY, Signs, Xid, fault_of
from nodes.protocol.names import FOREIGN_PROCESS
from portal.hardware.health_words import health_words
from tests.support.cluster.world import World
from tests.support.people.pages import Browser

SIGNS = (
    Signs(recovery=99),
    Signs(remap_failed=True),
    Signs(remap_pending=True),
    Signs(xid=Xid(79, 1)),
    Signs(xid=Xid(79, 2)),
    Signs(uncorrected=3),
    Signs(mig=True, index=3),
)


def test_whatever_a_server_finds_wrong_with_a_gpu_has_a_form_that_is_known() -> None:
    told = {LOST, f"the node says: {FOREIGN_PROCESS}4711 (python3)", *RECOVERY.values(), *map(fault_of, SIGNS)}
    assert "" not in told
    with override("zh-hans"):
        assert {one for one in told if health_words(one) == one} == set()


def test_a_chinese_page_tells_what_happened_to_a_server_in_chinese(db: None) -> None:
    world = World()
    world.node("gpu01", gpus=1)
    page = Browser(world.user).get("/cluster/nodes/gpu01", accept_language="zh-CN")
    assert "节点 gpu01 首次报告。" in page.text
    assert "was registered" not in page.text
