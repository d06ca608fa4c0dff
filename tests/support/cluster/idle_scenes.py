"""A job that runs, and minutes of its GPUs as tests say."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from nodes.protocol.parking import SUSPEND
from portal.idle.models import GpuActivity, IdlePolicy, IdleWarning
from portal.idle.services.policy import idle_policy_set
from portal.idle.services.warnings import idle_judge
from portal.jobs.models import Job, JobAttempt, JobEvent
from portal.teams.models import VirtualCluster
from tests.support.cluster.usage_runs import folded_from, minute_of
from tests.support.cluster.world import World

MINUTE = timedelta(minutes=1)


class Scene:
    """``now`` is a full minute; all before it is taken in."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.world.node("gpu01", gpus=8)
        self.job = self.run(gpu=4)
        self.now = minute_of(timezone.now())
        folded_from(self.now)

    def run(self, **changes: Any) -> Job:
        job = self.world.submit(**changes)
        self.world.settle()
        assert Job.objects.get(pk=job.pk).state == "running"
        return job

    def run_parkable(self) -> Job:
        """A job of one GPU that may be parked, on a server that can."""
        node = self.world.nodes["gpu01"]
        node.inventory = replace(node.inventory, capabilities=(SUSPEND,), park_mb=64_000)
        node.report()
        VirtualCluster.objects.update(parking=True)
        return self.run(name="notebook")

    def policy(self, action: str = "stop", vc: VirtualCluster | None = None, **terms: Any) -> IdlePolicy:
        told = {"percent": 5, "minutes": 10, "after_minutes": 30, "extensions": 1, "extension_minutes": 20, **terms}
        return idle_policy_set(vc=vc, terms={"action": action, **told}, now=self.now, actor="root")

    def idle(self, minutes: int, job: Job | None = None) -> None:
        """All GPUs of the job have been idle for so long, and worked before."""
        at = int(self.now.timestamp()) // 60
        GpuActivity.objects.update_or_create(
            job_attempt=self.attempt(job),
            defaults={"told": 1000, "last": at - 1, "steps": [[90, 1000 - minutes, at - minutes], [0, 1000, at]]},
        )

    def judge(self, minutes: int = 0) -> None:
        """So many minutes later."""
        self.now += minutes * MINUTE
        folded_from(self.now)
        idle_judge(now=self.now)

    def attempt(self, job: Job | None = None) -> JobAttempt:
        return JobAttempt.objects.filter(job=job or self.job).latest("number")

    def warning(self) -> IdleWarning:
        return IdleWarning.objects.get(ended_at=None)

    def told(self, job: Job | None = None) -> list[str]:
        """What the events of the idle policy say, oldest first."""
        events = JobEvent.objects.filter(job=job or self.job, code__contains="idle").order_by("id")
        return [one.message for one in events]


def clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
