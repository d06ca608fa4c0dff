"""Usage and curves by the client and by the command."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from berth import AsyncClient, Client, NotAllowed, NotValid
from tests.integration.client.conftest import token_for
from tests.support.people.shell import Shell

if TYPE_CHECKING:
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db(transaction=True)
MAY = date(2026, 5, 1), date(2026, 5, 31)


@pytest.fixture
def past(world: World) -> int:
    """In May Alice held two GPUs for five hours, over a midnight; the job's id."""
    from tests.support.cluster.usage_runs import rolled_from, run

    world.node("gpu01", gpus=4)
    row = run(world, "05-03 22:00", "05-04 03:00", gpus=2)
    rolled_from("05-01")
    return row.task.job_id


def test_the_report_is_typed_and_the_same_for_both_clients(world: World, past: int, berth: Client) -> None:
    report = berth.usage(first=MAY[0], last=MAY[1], by=["user", "day"])
    assert [(row.user, row.period, row.gpu_hours, row.cost) for row in report.rows] == [
        ("alice", date(2026, 5, 3), 4, None), ("alice", date(2026, 5, 4), 6, None),
    ]  # fmt: skip
    assert (report.first, report.last, report.total.guaranteed_gpu_hours) == (*MAY, 10)
    rows = csv.DictReader(io.StringIO(berth.usage_csv(first=MAY[0], last=MAY[1], by=["vc"])))
    assert [(row["vc"], row["gpu_hours"]) for row in rows] == [("vision", "10.0")]
    with pytest.raises(NotValid, match="Known are"):
        berth.usage(by=["colour"])


async def test_curves_and_report_can_be_awaited(world: World, url: str, token: str) -> None:
    async with AsyncClient(url, token, trust_env=False) as client:
        assert (await client.usage()).rows == []


def test_curves_are_typed(past: int, berth: Client) -> None:
    curves = berth.jobs.metrics(past, gpu=1, step=60)
    assert (curves.role, curves.node, curves.times) == ("worker", "gpu01", [])
    assert [(one.metric, one.gpu.index if one.gpu else None) for one in curves.series][:3] == [
        ("cpu", None), ("memory", None), ("gpu_utilisation", 1),
    ]  # fmt: skip


def test_a_job_is_shown_with_what_its_gpus_did_and_a_node_with_what_they_do(world: World, shell: Shell) -> None:
    from django.utils import timezone

    from tests.support.cluster.usage_runs import started, tell

    node = world.node("gpu01", gpus=2)
    started(world, gpu=1)
    tell(node, timezone.now(), 90, sm_active=40, dram_active=30)
    lines = [line.split() for line in shell.berth("show", "train").splitlines()]
    assert ["TASK", "GPU", "USED", "SM", "TENSOR", "BANDWIDTH", "PEAK", "MEMORY"] in lines
    assert ["worker/0", "0", "90", "%", "40", "%", "-", "30", "%", "3.91G"] in lines
    lines = [line.split() for line in shell.berth("node", "show", "gpu01").splitlines()]
    (first,) = [line for line in lines if line[-1:] == ["alice/train#1"]]
    assert " ".join(first).startswith("0 NVIDIA A100 3.91G / 78.1G 90 % 40 % vision alice")


def test_prices_are_an_administrators(world: World, past: int, url: str, berth: Client) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    with pytest.raises(NotAllowed):
        berth.set_price("A100", Decimal("2.5"))
    with Client(url, token_for(person("root", ClusterRole.ADMIN)), trust_env=False) as admin:
        assert admin.set_price("A100", Decimal("2.5")).price == Decimal("2.5")
    assert berth.usage(first=MAY[0], last=MAY[1]).total.cost == Decimal("25.00")


def test_the_command_shows_a_table_with_bars_csv_and_json(world: World, past: int, shell: Shell) -> None:
    span = ("--from", "2026-05-01", "--to", "2026-05-31")
    from tests.support.cluster.usage_runs import an_extra_task, run

    lines = shell.berth("usage", *span, "--by", "user,day").splitlines()
    assert lines[0] == "GPU hours from 2026-05-01 to 2026-05-31 (UTC)"
    assert lines[1].split()[:4] == ["USER", "DAY", "HELD", "ON"]
    assert lines[3].split() == ["alice", "2026-05-04", "6.00", "0.00", "-", "0.00", "0.00", "░" * 24]
    assert lines[4].split()[:2] == ["total", "10.0"]
    assert shell.berth("usage", *span, "--csv").splitlines()[1].startswith("vision,10.0,")
    assert json.loads(shell.berth("usage", *span, "--json"))["total"]["gpu_hours"] == 10
    an_extra_task(run(world, "05-20 10:00", "05-20 13:00", borrowed=True))
    lines = shell.berth("usage", *span, "--by", "user").splitlines()
    assert lines[1].split()[:6] == ["USER", "HELD", "ON", "LOAN", "GROWN", "USED"]
    assert lines[2].split()[:4] == ["alice", "13.0", "3.00", "3.00"]
    assert "Nobody held a GPU." in shell.berth("usage", "--vc", "audio", *span)
    assert "after the last day" in shell.berth("usage", "--from", "2026-06-01", "--to", "2026-05-31", code=65)
    assert "one of --csv and --json" in shell.berth("usage", "--csv", "--json", code=78)
