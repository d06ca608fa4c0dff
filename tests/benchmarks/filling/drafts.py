"""Jobs as submitting them would make their rows: the file of each shape is judged once in each virtual cluster."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from nodes.protocol.wording import Sentence
from portal.accounts.models import User
from portal.jobs import wordings
from portal.jobs.models import Job, TaskRole
from portal.jobs.services.admission import job_check
from portal.jobs.services.submit import job_draft
from portal.teams.models import VirtualCluster
from tests.benchmarks.filling.sizes import Shape, job_file

A_NAME = "@name@"


@dataclass(frozen=True, slots=True)
class Draft:
    """The rows of a job of one shape in one virtual cluster; ``spec`` and ``config`` are texts with a placeholder for
    the name."""

    vc: VirtualCluster
    shape: Shape
    job: Job
    role: TaskRole
    spec: str
    config: str

    @property
    def gpu_count(self) -> int:
        """Of all tasks."""
        return self.shape.gpus * self.shape.tasks


class Drafts:
    """Makes each draft once, and counts the runs of each user's names."""

    def __init__(self, members: dict[int, list[User]], now: datetime) -> None:
        self.members = members
        self.vcs = {vc.pk: vc for vc in VirtualCluster.objects.filter(pk__in=members)}
        self._now = now
        self._made: dict[tuple[int, Shape], Draft] = {}
        self._runs: dict[tuple[int, str], int] = defaultdict(int)

    def get(self, vc: int, shape: Shape) -> Draft:
        """The draft of this shape."""
        key = vc, shape
        if key not in self._made:
            self._made[key] = self._make(self.vcs[vc], shape)
        return self._made[key]

    def _make(self, vc: VirtualCluster, shape: Shape) -> Draft:
        user = self.members[vc.pk][0]
        text = job_file(name="a-name", vc=vc.name, shape=shape)
        job, roles = job_draft(user=user, spec=job_check(user=user, text=text), now=self._now)
        spec = json.dumps({**job.spec, "name": A_NAME})
        return Draft(vc, shape, job, roles[0], spec, job_file(name=A_NAME, vc=vc.name, shape=shape))

    def run(self, user: User, name: str) -> int:
        """The number of this user's next run of this name."""
        self._runs[user.pk, name] += 1
        return self._runs[user.pk, name]


def submitted(label: str, draft: Draft) -> Sentence:
    """What the event of a submission says."""
    tasks, gpus = wordings.TASKS(number=draft.shape.tasks), wordings.GPUS(number=draft.gpu_count)
    return wordings.SUBMITTED_GPUS(job=label, vc=draft.vc.name, tasks=tasks, gpus=gpus)
