"""Two teams on three servers, on a Monday morning: jobs that run, wait, failed and were preempted, with logs, curves
and files."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from nodes.protocol.logs import STDERR, STDOUT, LogRecord, record_encode
from nodes.protocol.parking import SUSPEND
from portal.accounts.models import ClusterRole, User
from portal.accounts.services import user_create
from portal.alerts.telling import alerts_look
from portal.cluster.services.history import gpus_count
from portal.hardware.models import CellType, Gpu, Node, ReportsLane
from portal.hardware.services.silence import lane_pulse
from portal.idle.models import GpuActivity
from portal.idle.services.policy import idle_policy_set
from portal.idle.services.warnings import idle_judge
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.services.submit import job_submit
from portal.logs.archive_store import Archive
from portal.logs.records import Run
from portal.metrics.record import Records
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create
from tests.examples.clock import Clock
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.usage_runs import fold, folded_from, tell
from tests.support.cluster.world import World, job_file

PASSWORD = "correct horse 7"
STRANGER = "5c2d2f6e-0d7c-4a54-9a0f-0f3c9f3c7a11"
"""A task attempt that gpu03 runs and the portal does not know."""
OUTPUT = [
    (STDOUT, "loading 1,281,167 pictures\n"),
    (STDERR, "warning: 3 pictures cannot be read\n"),
    (STDOUT, "epoch 1  loss 6.91  212 pictures/s\n"),
    (STDOUT, "epoch 2  loss 4.07  214 pictures/s\n"),
]
FILES = {"model.pt": b"weights" * 4096, "config.json": b'{"lr": 0.1}\n', "logs/loss.csv": b"epoch,loss\n1,6.91\n"}


def training(name: str, vc: str, **changes: Any) -> str:
    """A job file as people write them."""
    uri = "nvcr.io/nvidia/pytorch:24.05-py3"
    image = [{"name": "image", "type": "dockerimage", "uri": uri}]
    return job_file(
        **{"name": name, "commands": ["python train.py --out $BERTH_JOB_DIR"], "prerequisites": image, **changes},
        defaults={"virtualCluster": vc},
    )


class Scene:
    """``jobs`` by their names; ``nodes`` gpu01 and gpu02 of vision and language, and gpu03 that nobody has."""

    def __init__(self, clock: Clock, folder: Path, records: Path, logs: Path) -> None:
        self.clock, self.root = clock, folder / "jobs"
        self.records, self.logs = Records(records), Archive(logs)
        self.root.mkdir()
        self.jobs: dict[str, Job] = {}
        self.people: dict[str, User] = {}
        self._teams()
        self._past()
        self._present()
        self._idle()
        self._traces()

    def _teams(self) -> None:
        Storage.objects.create(name="jobs", root=str(self.root), jobs=True, must_be_mount=False)
        self.world = World()
        self.vision: VirtualCluster = self.world.vc
        self.language = vc_create(name="language", now=self.clock.now)
        self.people["alice"] = self.world.user
        User.objects.filter(username="alice").update(email="alice@example.org")
        self.world.user.set_password(PASSWORD)
        self.world.user.save()
        root = user_create(username="root", password=None, role=ClusterRole.ADMIN)
        self.people["root"] = root
        for name, vc, role in (("bob", self.vision, "lead"), ("carol", self.language, "member")):
            self.people[name] = user_create(username=name, password=None, email=f"{name}@example.org")
            member_set(vc=vc, user=self.people[name], role=role, now=self.clock.now)
        for name in ("gpu01", "gpu02"):
            node = self.world.node(name, gpus=2, root=str(self.root))
            node.inventory = replace(node.inventory, capabilities=(SUSPEND,), park_mb=64_000)
        VirtualCluster.objects.filter(pk=self.vision.pk).update(parking=True)
        for vc in (self.vision, self.language):
            quota_set(vc=vc, cell_type=CellType.objects.get(child__isnull=True), count=2, now=self.clock.now)
        member_set(vc=self.language, user=self.people["bob"], role="member", now=self.clock.now)

    def _past(self) -> None:
        """One that is done and one that failed."""
        for name, code in (("tokenizer", 0), ("debug", 1)):
            self.submit("alice", training(name, "vision"))
            self.settle()
            self.clock.go(minutes=12)
            for node in self.world.nodes.values():
                node.finish(code)
            self.settle()

    def _present(self) -> None:
        """Carol borrows a GPU that alice's next job takes back."""
        folded_from(self.clock.now)
        self.submit("alice", training("resnet50", "vision"))
        borrow = {"extras": {"berth": {"borrow": "auto"}}}
        self.submit("carol", training("whisper", "language", instances=1, gpu=2))
        self.submit("carol", training("aligner", "language", **borrow))
        self.settle()
        self.clock.go(minutes=40)
        self.submit("alice", training("detector", "vision"))
        self.settle()
        self.settle()
        self.clock.go(minutes=2)
        for name, owner in (("sweep-1", "alice"), ("sweep-2", "bob")):
            self.submit(owner, training(name, "vision"))
        self.settle()

    def _idle(self) -> None:
        now, attempt = self.clock.now, self.attempt("whisper")
        terms = {"action": "warn", "percent": 5, "minutes": 30, "after_minutes": 60, "extensions": 2}
        idle_policy_set(vc=None, terms={**terms, "extension_minutes": 60}, now=now, actor="root")
        idle_policy_set(
            vc=self.language, terms={**terms, "action": "stop", "extension_minutes": 60}, now=now, actor="root"
        )
        at = int(now.timestamp()) // 60
        steps = [[90, at - 35, at - 35], [0, at, at]]
        GpuActivity.objects.create(job_attempt=attempt.job_attempt, told=at, last=at - 1, steps=steps)
        folded_from(now)
        idle_judge(now=now)

    def _traces(self) -> None:
        """Log, curves and files of what alice trains; GPUs counted."""
        row = self.attempt("resnet50")
        began = self.clock.now - timedelta(minutes=2)
        first = int(began.timestamp() * 1e9)
        data = b"".join(
            record_encode(LogRecord(first + at * 21_000_000_000, stream, text.encode()))
            for at, (stream, text) in enumerate(OUTPUT)
        )
        self.logs.write(str(row.pk), Run(0, data))
        TaskAttempt.objects.filter(pk=row.pk).update(log_end=len(data), archived_to=len(data))
        folded_from(began)
        for at in range(12):
            tell(self.world.nodes[row.node.name], began + timedelta(seconds=10 * at), 88 + at % 4)
        fold(self.records, self.clock.now + timedelta(minutes=1))
        self.world.cycle()
        for node in (*self.world.nodes.values(), ScriptedNode("gpu03", gpus=2)):
            assert node.report()
        Gpu.objects.filter(node__name="gpu03", index=1).update(fault="12 memory errors that cannot be mended")
        Gpu.objects.filter(node__name="gpu03", index=0).update(
            fault="the node says: hardware error Xid 79", told="hardware error Xid 79"
        )
        told = {"gpus": ["GPU-gpu03-0"], "seen_at": self.clock.now.isoformat()}
        Node.objects.filter(name="gpu03").update(strangers={STRANGER: told})
        lane_pulse(now=self.clock.now)
        alerts_look(now=self.clock.now)
        gpus_count(now=self.clock.now)
        folder = self.root / "alice" / "resnet50-1"
        for name, content in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        for path in folder.rglob("*"):
            os.utime(path, (began.timestamp(), began.timestamp()))

    def submit(self, owner: str, text: str) -> None:
        job = job_submit(user=self.people[owner], text=text, now=self.clock.go(seconds=20))
        self.jobs[job.name] = job

    def settle(self) -> None:
        self.clock.go(seconds=20)
        self.world.settle()

    def silence(self, node: str) -> None:
        """It has said nothing for an hour in which reports were taken in."""
        ago = self.clock.now - timedelta(hours=1)
        Node.objects.filter(name=node).update(last_report_at=ago)
        ReportsLane.objects.update(open_since=ago, last_pulse_at=self.clock.now)

    def attempt(self, job: str) -> TaskAttempt:
        """The newest run of the job's first task."""
        runs = TaskAttempt.objects.select_related("node", "job_attempt").filter(task__job=self.jobs[job])
        return runs.latest("created_at")
