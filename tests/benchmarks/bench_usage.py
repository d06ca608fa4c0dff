"""Readings and usage reports at size, printed: `python -m tests.benchmarks.bench_usage [finished jobs]`.

PostgreSQL as it waits for the disk. What a report of a node costs more for the record, how long a minute of all nodes
takes to fold, and how soon a usage report answers, after each of several ways to group it. Nothing here is asserted.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from tests.benchmarks.big_cluster import database
from tests.benchmarks.fill import fill
from tests.benchmarks.filling.sizes import Sizes

if TYPE_CHECKING:
    from nodes.protocol.messages import ContainerReport, Sample

TIMES = 5
EVERY_S = 5


def main(finished: int) -> None:
    with database() as services:
        began = perf_counter()
        fill(Sizes(finished=finished))
        print(f"filled with {finished:,} finished jobs in {perf_counter() - began:.0f} s")
        readings()
        reports()
        del services


def timed(what: str, action: Callable[[], object]) -> None:
    times = []
    for _ in range(TIMES):
        began = perf_counter()
        action()
        times.append((perf_counter() - began) * 1000)
    print(f"{what:60} {median(times):8.1f} ms")


def readings() -> None:
    """What each report costs, and a minute of all nodes."""
    from django.utils import timezone

    from nodes.protocol.messages import encode
    from nodes.protocol.names import samples_key
    from portal.common.samples import sample_keep
    from portal.common.wake import redis_once
    from portal.hardware.models import Node
    from portal.logs.stream import streams_client
    from portal.metrics.folding import samples_fold
    from portal.metrics.record import Records
    from portal.usage.models import Measured, UsageProgress

    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=3)
    nodes = dict(nodes_told(minute))
    before = after = 0.0
    for second in range(0, 60, EVERY_S):
        for node, (containers, sample_at) in nodes.items():
            sample = sample_at(minute + timedelta(seconds=second))
            began = perf_counter()
            redis_once().set(samples_key(node), encode(sample), ex=60)
            middle = perf_counter()
            sample_keep(node=node, sample=sample, containers=containers, now_ms=sample.at_ms)
            before, after = before + middle - began, after + perf_counter() - middle
    count = len(nodes) * 60 // EVERY_S
    told = f"{before / count * 1e6:.0f} us to set the newest reading, {after / count * 1e6:.0f} us with the record's"
    print(f"{count} reports of {len(nodes)} nodes: {told}")
    Node.objects.update(last_report_at=timezone.now())
    UsageProgress.objects.update(folded_to=minute)
    used = redis_once().info("memory")["used_memory"]
    redis = streams_client()
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        samples_fold(now=minute + timedelta(seconds=100), redis=redis, records=Records(Path(folder)))
        took = perf_counter() - began
        sizes = [file.stat().st_size for file in Path(folder).rglob("*.points")]
    print(f"a minute folded in {took:.2f} s: {len(sizes)} task attempts, {sum(sizes) / 1e6:.1f} MB added to files")
    print(f"Redis holds {used / 1e6:.0f} MB; {Measured.objects.count():,} rows of sums")


def nodes_told(
    minute: datetime,
) -> Iterator[tuple[str, tuple[tuple[ContainerReport, ...], Callable[[datetime], Sample]]]]:
    """Each node with what it reports of its containers and GPUs."""
    import random

    from nodes.protocol.messages import ContainerReport, GpuSample, Sample
    from nodes.protocol.states import ContainerState
    from portal.hardware.models import Gpu
    from portal.jobs.models import Allocation

    rng = random.Random(1)
    held: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    rows = Allocation.objects.filter(released_at__isnull=True).order_by("leaf__uuid")
    for node, attempt, uuid in rows.values_list("leaf__node__name", "task_attempt", "leaf__uuid"):
        held[node][str(attempt)].append(uuid)
    gpus: dict[str, list[str]] = defaultdict(list)
    for node, uuid in Gpu.objects.values_list("node__name", "uuid"):
        gpus[node].append(uuid)
    for node, uuids in gpus.items():
        containers = tuple(
            ContainerReport(
                attempt=attempt, state=ContainerState.RUNNING, spec_hash="", generation=0, gpus=tuple(its)
            )
            for attempt, its in held[node].items()
        )  # fmt: skip

        def sample_at(
            moment: datetime, uuids: list[str] = uuids, attempts: tuple[str, ...] = tuple(held[node])
        ) -> Sample:
            return Sample(
                at_ms=int(moment.timestamp() * 1000),
                gpus=tuple(
                    GpuSample(
                        uuid=uuid, utilisation=rng.randrange(80, 100), memory_used_mb=70_000, temperature_c=60,
                        power_w=rng.randrange(300, 400), sm_clock_mhz=1400,
                    )
                    for uuid in uuids
                ),
                cpu_milli=dict.fromkeys(attempts, 4000), memory_mb=dict.fromkeys(attempts, 16_000),
            )  # fmt: skip

        yield node, (containers, sample_at)


def reports() -> None:
    """A usage report, as an administrator and a lead ask for it."""
    from django.test import Client
    from django.utils import timezone

    from portal.accounts.models import ClusterRole, Scope, User
    from portal.accounts.services import token_create
    from portal.teams.models import Membership
    from portal.usage.models import UsageDay
    from tests.support.people.cast import HOST, person

    print(f"{UsageDay.objects.count():,} rows of days that are over")
    now = timezone.now()
    lead = User.objects.get(pk=str(Membership.objects.filter(role="lead").order_by("id")[5].user_id))
    today = now.date()
    spans = {"this day": today, "a month": today - timedelta(days=30), "a year": today - timedelta(days=364)}
    for user in (person("bench-admin", ClusterRole.ADMIN), lead):
        secret = token_create(user=user, name="bench", scope=Scope.READ, now=now, expires_at=None).secret
        headers = {"Authorization": f"Bearer {secret}"}
        for span, first in spans.items():
            for by in ("vc", "vc,user", "day", "vc,user,day"):
                address = f"/api/v1/usage?from={first}&to={today}&by={by}"
                answer = Client(HTTP_HOST=HOST).get(address, headers=headers)
                told = f"{len(answer.json()['rows'])} rows" if answer.status_code == 200 else str(answer.status_code)
                ask = lambda address=address: Client(HTTP_HOST=HOST).get(address, headers=headers)  # noqa: B023, E731
                timed(f"{user.role}: {span} by {by}, {told}", ask)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
