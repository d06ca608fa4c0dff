"""Storages prove themselves: what one server writes there another one reads, or is known not to see."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from nodes.protocol.sessions import PROOFS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.files.conftest import Running
    from tests.support.cluster.scripted_node import ScriptedNode

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def two(cluster: Running) -> Iterator[tuple[Running, ScriptedNode]]:
    """The cluster, whose server gpu01 came first, and gpu02, which has the same storage; both answer."""
    second = cluster.world.node("gpu02", gpus=1, root=str(cluster.root))
    with ExitStack() as doors:
        doors.enter_context(cluster.door())
        doors.enter_context(cluster.door(node="gpu02", key=second.key, boot=second.boot))
        yield cluster, second


def prove(minutes: int = 0) -> int:
    from portal.storages.proving import storages_prove

    return storages_prove(now=timezone.now() + timedelta(minutes=minutes))


def told(node: ScriptedNode) -> dict[str, Any]:
    from portal.storages.models import Storage

    key = str(Storage.objects.get().pk)
    found: dict[str, Any] = node.row.ties.get(key, {})
    return found


def test_who_reads_what_another_wrote_sees_the_same_storage_and_is_not_asked_again(
    two: tuple[Running, ScriptedNode],
) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import Api, person

    cluster, _ = two
    assert (prove(), prove(60)) == (1, 0)
    servers = Api(person("root", ClusterRole.ADMIN)).get("storages/jobs/servers")
    assert [(one["node"], one["proof"], one["proof_by"]) for one in servers] == [
        ("gpu01", "", ""),
        ("gpu02", "seen", "gpu01"),
    ]
    assert len(list((cluster.root / PROOFS).iterdir())) == 1


def exported() -> None:
    """The storage is one that servers mount; here nothing is mounted, which the doors need not know."""
    from portal.storages.models import Storage

    Storage.objects.update(kind="nfs", export="filer:/jobs")


def unseen(storage: str, node: ScriptedNode, times: int = 1) -> None:
    from portal.storages.models import Storage
    from portal.storages.services.ties import tie_proven
    from portal.storages.ties import UNSEEN

    row = Storage.objects.get(name=storage)
    for _ in range(times):
        tie_proven(storage=row, node=node.row, by="gpu01", result=UNSEEN, why="", now=timezone.now())


def answering(cluster: Running) -> list[str]:
    from portal.files.selectors import job_folder

    return [node.name for node in job_folder(job=cluster.job).nodes]


def test_a_server_that_does_not_find_what_was_written_has_not_seen_it(cluster: Running, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    second = cluster.world.node("gpu02", gpus=1, root=str(cluster.root))
    with cluster.door(elsewhere=elsewhere), cluster.door(node="gpu02", key=second.key, boot=second.boot):
        assert [prove(minutes) for minutes in (0, 1, 10)] == [1, 0, 1]
    proof = told(second)["proof"]
    assert (proof["result"], proof["by"], proof["tries"]) == ("unseen", "gpu01", 2)
    assert len(list((elsewhere / PROOFS).iterdir())) == 2


def test_where_nobody_can_write_it_could_not_be_tried_and_nobody_is_untied(two: tuple[Running, ScriptedNode]) -> None:
    cluster, second = two
    (cluster.root / PROOFS).mkdir(mode=0o755)
    for minutes in (0, 10, 20, 30):
        assert prove(minutes) == 1
    proof = told(second)["proof"]
    assert (proof["result"], "is not the agent's own folder" in proof["why"]) == ("untried", True)
    assert answering(cluster) == ["gpu01", "gpu02"]


def test_of_an_export_who_has_not_seen_it_time_and_again_is_untied_until_somebody_ties_it_by_hand(
    two: tuple[Running, ScriptedNode],
) -> None:
    from portal.accounts.models import AuditEntry
    from portal.storages.models import Storage
    from portal.storages.services.ties import storage_tie

    cluster, second = two
    exported()
    unseen("jobs", second, 2)
    assert answering(cluster) == ["gpu01", "gpu02"], "a file system may be behind"
    unseen("jobs", second)
    assert answering(cluster) == ["gpu01"]
    entry = AuditEntry.objects.get(action="storage.tie")
    assert (entry.actor, entry.after) == ("", {"node": "gpu02", "tied": False, "proof": "unseen"})
    storage_tie(storage=Storage.objects.get(), node=second.row, tied=True, actor="root", now=timezone.now())
    unseen("jobs", second, 5)
    assert answering(cluster) == ["gpu01", "gpu02"]


def test_a_folder_that_may_be_another_one_on_each_server_unties_nobody(two: tuple[Running, ScriptedNode]) -> None:
    cluster, second = two
    unseen("jobs", second, 5)
    assert answering(cluster) == ["gpu01", "gpu02"]
    assert told(second)["proof"]["tries"] == 5
