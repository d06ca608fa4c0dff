"""A cluster of scripted nodes with a user in a virtual cluster that owns all GPUs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import yaml
from django.db.models import Count
from django.utils import timezone

from portal.accounts.models import User
from portal.alerts.models import AlertWatch
from portal.hardware.models import CellType
from portal.hardware.services.silence import lane_pulse
from portal.jobs.models import Job
from portal.jobs.services.submit import job_submit
from portal.scheduler.apply import Applied
from portal.scheduler.cycle import Cycle, Scheduler
from portal.teams.models import QuotaLine, VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.scripted_node import ScriptedNode


class World:
    """Nodes, one user, one virtual cluster, and the cycle run by hand."""

    def __init__(self) -> None:
        self.now = timezone.now()
        self.user = User.objects.create_user("alice", password="correct horse", uid=1001, gid=1001)
        self.vc: VirtualCluster = vc_create(name="vision", host_network=True, now=self.now)
        member_set(vc=self.vc, user=self.user, role="member", now=self.now)
        self.nodes: dict[str, ScriptedNode] = {}
        self.scheduler = Scheduler()
        lane_pulse(now=self.now)
        AlertWatch.objects.create(looked_at=self.now)

    def node(self, name: str, **shape: Any) -> ScriptedNode:
        """A node that has joined and reported; its GPUs go to the team."""
        node = self.nodes[name] = ScriptedNode(name, **shape)
        assert node.report()
        counts = CellType.objects.filter(child__isnull=True).annotate(number=Count("gpus"))
        QuotaLine.objects.bulk_create(
            [QuotaLine(vc=self.vc, cell_type=one, count=one.number) for one in counts if one.number],
            update_conflicts=True, unique_fields=["vc", "cell_type", "chain"], update_fields=["count"],
        )  # fmt: skip
        return node

    def submit(self, **changes: Any) -> Job:
        return job_submit(user=self.user, text=job_file(**changes), now=timezone.now())

    def cycle(self, now: datetime | None = None) -> Cycle:
        done = self.scheduler.cycle(now=now or timezone.now())
        assert done is not None
        return done

    def settle(self) -> None:
        """Cycles and obedient nodes until nothing more moves, four at most."""
        for _ in range(4):
            applied = self.cycle().applied
            if not self.obeyed() and replace(applied, skipped=0, reasons=0) == Applied():
                break

    def obeyed(self) -> bool:
        """Whether the nodes had anything to do; it is done."""
        for rounds in range(10):
            moved = [node.obey() for node in self.nodes.values()]
            if not any(moved):
                return rounds > 0
        raise AssertionError("the nodes come to no end")


def job_file(
    *,
    name: str = "train",
    instances: int = 1,
    gpu: int = 1,
    commands: list[str] | None = None,
    gang: bool = True,
    role: dict[str, Any] | None = None,
    berth: dict[str, Any] | None = None,
    **top: Any,
) -> str:
    """A job file with one role ``worker``; ``role``, ``berth`` and ``top`` add or replace keys."""
    worker = {
        "instances": instances,
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": gpu},
        "commands": commands or ["true"],
        **(role or {}),
    }
    job = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "busybox:latest"}],
        "taskRoles": {"worker": worker},
        "defaults": {"virtualCluster": "vision"},
        "extras": {"gangAllocation": gang, "berth": berth or {}},
        **top,
    }
    return yaml.safe_dump(job, sort_keys=False)
