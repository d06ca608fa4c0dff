"""Quotas: carved out of any cells, changed from one moment to another, and never below what was promised."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import F

from portal.common.errors import Conflict, Invalid
from portal.hardware.models import CellType
from portal.teams.models import ClusterVersion, FirmRight, QuotaChange, QuotaLine, VcEvent, VirtualCluster
from portal.teams.selectors.quotas import quota_lines
from portal.teams.selectors.shares import vc_quotas
from portal.teams.services.cluster_version import cluster_change, cluster_version
from portal.teams.services.quotas import (
    Wish,
    lines_resolve,
    quota_change_create,
    quota_change_withdraw,
    quota_changes_apply,
    quota_set,
    quotas_set,
)
from portal.teams.services.teams import vc_create
from tests.integration.cluster.test_topology import grouped
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> World:
    """Two nodes of 8 GPUs in quads, for vision and audio, which own nothing yet."""
    made = World()
    for name in ("gpu01", "gpu02"):
        grouped(made, name, numa=4)
    vc_create(name="audio", now=made.now)
    return made


def give(world: World, vc: str, cell_type: str, count: int) -> None:
    quotas_set(lines=lines_resolve([Wish(vc, cell_type, count)]), now=world.now, actor="root")


def refused(call: Callable[[], object]) -> dict[str, str]:
    with pytest.raises(Invalid) as error:
        call()
    return {fault.path: fault.message for fault in error.value.faults}


def owned() -> dict[str, int]:
    return {vc.name: sum(vc_quotas(vcs=[vc])[vc.pk].values()) for vc in VirtualCluster.objects.all()}


def test_quota_is_carved_out_of_cells_of_any_level(world: World) -> None:
    give(world, "vision", "A100-node8", 1)
    give(world, "audio", "A100-quad", 1)
    give(world, "audio", "A100", 4)
    assert owned() == {"vision": 8, "audio": 8}


@pytest.mark.parametrize(
    ("cell_type", "count", "sentence"),
    [
        ("A100-node8", 3, "quota.A100-node8: the quotas need 3 A100-node8 of A100, 2 are there"),
        ("A100-quad", 4, "quota.A100: the quotas need 20 A100, 16 are there"),
        ("A100", 13, "quota.A100: the quotas need 17 A100, 16 are there"),
    ],
)
def test_a_quota_that_cannot_be_carved_out_names_level_need_and_what_is_there(
    world: World, cell_type: str, count: int, sentence: str
) -> None:
    give(world, "vision", "A100", 4)
    faults = refused(lambda: give(world, "audio", cell_type, count))
    assert [f"{path}: {message}" for path, message in faults.items()] == [sentence]
    assert owned() == {"vision": 4, "audio": 0}


def test_every_unknown_name_is_told_at_once(world: World) -> None:
    wishes = [Wish("nobody", "A100", 1), Wish("audio", "H100", 1), Wish("audio", "A100", -1), Wish("audio", "A100", 1)]
    faults = refused(lambda: lines_resolve([*wishes, Wish("audio", "A100", 2), Wish("audio", "A100", 1, "rack")]))
    assert faults == {
        "lines[0].vc": "there is no virtual cluster nobody",
        "lines[1].cell_type": "there is no cell type H100",
        "lines[2].count": "must be from 0 to 1000000, not -1",
        "lines[4]": "audio has a line for A100 already",
        "lines[5].chain": "rack has no A100; chains with it: A100",
    }


def test_a_quota_may_be_made_smaller_while_hardware_is_missing(world: World) -> None:
    give(world, "vision", "A100", 16)
    QuotaLine.objects.update(count=20)
    give(world, "vision", "A100", 18)
    assert "20 A100" in refused(lambda: give(world, "audio", "A100", 2))["quota.A100"]


def test_of_two_changes_of_one_version_the_second_is_refused(world: World) -> None:
    version = cluster_version()
    lines = lines_resolve([Wish("vision", "A100", 4)])
    quotas_set(lines=lines, now=world.now, actor="root", version=version)
    with pytest.raises(Conflict, match="changed meanwhile"):
        quotas_set(lines=lines, now=world.now, actor="root", version=version)


def test_of_two_changes_at_one_moment_one_is_refused_and_leaves_nothing(world: World) -> None:
    def meanwhile() -> None:
        with cluster_change():
            QuotaLine.objects.create(vc=world.vc, cell_type=CellType.objects.get(name="A100"), count=1)
            ClusterVersion.objects.update(version=F("version") + 1)

    with pytest.raises(Conflict, match="at the same moment"):
        meanwhile()
    assert not QuotaLine.objects.exists()


# ---------------------------------------------------------------- from one moment to another


def plan(world: World, start: int, end: int | None, *wishes: Wish) -> QuotaChange:
    return quota_change_create(
        lines=lines_resolve(wishes), starts_at=world.now + start * HOUR,
        ends_at=None if end is None else world.now + end * HOUR, reason="deadline", actor="root", now=world.now,
    )  # fmt: skip


def at(world: World, hour: int) -> dict[str, int]:
    quota_changes_apply(now=world.now + hour * HOUR)
    return owned()


def test_a_deadline_week_begins_and_returns_by_itself(world: World) -> None:
    give(world, "vision", "A100", 8)
    give(world, "audio", "A100", 8)
    plan(world, 1, 3, Wish("vision", "A100", 14), Wish("audio", "A100", 2))
    assert [at(world, hour) for hour in (0, 1, 2, 3)] == [
        {"vision": 8, "audio": 8}, {"vision": 14, "audio": 2}, {"vision": 14, "audio": 2}, {"vision": 8, "audio": 8},
    ]  # fmt: skip
    codes = list(VcEvent.objects.filter(vc__name="audio").values_list("code", flat=True))
    assert codes[-3:] == ["quota_planned", "quota_begun", "quota_returned"]


def test_what_comes_back_is_the_quota_as_it_is_then(world: World) -> None:
    give(world, "vision", "A100", 8)
    plan(world, 0, 2, Wish("vision", "A100", 10))
    assert at(world, 0) == {"vision": 10, "audio": 0}
    give(world, "vision", "A100", 4)
    assert owned() == {"vision": 10, "audio": 0}
    assert at(world, 2) == {"vision": 4, "audio": 0}


def test_a_change_without_an_end_becomes_the_quota(world: World) -> None:
    give(world, "vision", "A100", 8)
    plan(world, 1, None, Wish("vision", "A100", 12))
    assert at(world, 1) == {"vision": 12, "audio": 0}
    assert QuotaLine.objects.get().count == 12


def test_a_change_is_applied_once(world: World) -> None:
    plan(world, 0, None, Wish("vision", "A100", 12))
    assert [quota_changes_apply(now=world.now) for _ in range(2)] == [1, 0]


def test_a_change_that_could_not_be_carved_out_at_its_time_is_refused(world: World) -> None:
    give(world, "vision", "A100", 8)
    plan(world, 5, None, Wish("audio", "A100", 8))
    faults = refused(lambda: plan(world, 2, 7, Wish("vision", "A100", 12)))
    assert "on, the quotas need 20 A100, 16 are there" in faults["quota.A100"]
    assert refused(lambda: give(world, "vision", "A100", 9)).keys() == {"quota.A100"}


def test_two_changes_of_one_line_do_not_overlap(world: World) -> None:
    plan(world, 1, 3, Wish("vision", "A100", 4))
    assert "withdraw it" in refused(lambda: plan(world, 2, 5, Wish("vision", "A100", 5)))["lines"]
    plan(world, 3, 5, Wish("vision", "A100", 5))


def test_a_change_has_lines_and_lies_ahead(world: World) -> None:
    assert refused(lambda: plan(world, -1, -2)).keys() == {"lines", "starts_at", "ends_at"}


def test_a_change_that_is_withdrawn_ends_at_once_and_only_once(world: World) -> None:
    change = plan(world, 0, 9, Wish("vision", "A100", 12))
    at(world, 0)
    quota_change_withdraw(change=change, now=world.now, actor="root")
    assert owned() == {"vision": 0, "audio": 0}
    with pytest.raises(Conflict):
        quota_change_withdraw(change=change, now=world.now, actor="root")


def test_a_change_that_others_build_upon_cannot_be_withdrawn(world: World) -> None:
    give(world, "vision", "A100", 16)
    change = plan(world, 1, 9, Wish("vision", "A100", 8))
    plan(world, 2, 8, Wish("audio", "A100", 8))
    assert (
        "16 are there"
        in refused(lambda: quota_change_withdraw(change=change, now=world.now, actor="root"))["quota.A100"]
    )


def test_a_quota_is_not_cut_below_what_is_promised_to_jobs_that_are_not_preempted(world: World) -> None:
    give(world, "vision", "A100-quad", 2)
    FirmRight.objects.create(vc=world.vc, user=world.user, gpus=6, last_day=world.now.date())
    assert (
        "vision would own 4 GPUs, 6 are promised"
        in refused(lambda: give(world, "vision", "A100-quad", 1))["quota.vision"]
    )
    plan(world, 48, 72, Wish("vision", "A100-quad", 1))
    assert quota_lines().popitem()[1] == 2


def test_a_type_in_several_chains_needs_its_chain(world: World) -> None:
    from portal.hardware.models import Node

    Node.objects.filter(name="gpu02").update(chain="island")
    quad = CellType.objects.get(name="A100-quad")
    faults = refused(lambda: quota_set(vc=world.vc, cell_type=quad, count=1, now=world.now))
    assert faults == {"lines[0].chain": "A100-quad is in several chains, name one: A100, island"}
    quotas_set(lines=lines_resolve([Wish("vision", "A100-quad", 2, "island")]), now=world.now, actor="root")
    assert (
        "3 A100-quad of island, 2 are there"
        in refused(
            lambda: quotas_set(
                lines=lines_resolve([Wish("audio", "A100-quad", 1, "island")]), now=world.now, actor="root"
            )
        )["quota.A100-quad"]
    )
