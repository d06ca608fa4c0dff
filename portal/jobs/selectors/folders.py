"""Where a job's folder lies, and which nodes can reach it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from django.utils.translation import gettext

from nodes.protocol import Mount
from portal.clusters.models import Node, Storage
from portal.clusters.selectors import storage_is_on
from portal.clusters.states import NodeHealth
from portal.common.errors import Absent, Unavailable
from portal.jobs.models import Job, TaskAttempt


@dataclass(frozen=True, slots=True)
class JobFolder:
    """``mount`` names it as a node knows it; of the ``nodes`` that have its storage the job's own stand first."""

    mount: Mount
    nodes: list[Node]


def job_folder_path(*, storage: Storage, user: str, name: str, run: int) -> str:
    """The folder on every node that mounts the storage."""
    return str(PurePosixPath(storage.root) / user / f"{name}-{run}")


def job_folder(*, job: Job) -> JobFolder:
    """Raises Absent where jobs have no folders, Unavailable where no node that has them is up."""
    storage = Storage.objects.filter(jobs=True).first()
    if storage is None:
        raise Absent(gettext("No storage of this cluster is for job folders, so jobs have none."))
    ran_on = set(TaskAttempt.objects.filter(task__job=job).values_list("node", flat=True))
    up = Node.objects.filter(health=NodeHealth.HEALTHY)
    told = up.only("name", "public_key", "boot", "storages", "storage_faults")
    nodes = [node for node in told if storage_is_on(node=node, storage=storage)]
    if not nodes:
        raise Unavailable(
            gettext("No node that has the storage %(storage)s, where job folders lie, is up now.")
            % {"storage": storage.name}
        )
    mount = Mount(
        storage=storage.name,
        root=storage.root,
        source=job_folder_path(storage=storage, user=job.user.username, name=job.name, run=job.run),
        target="",
        read_only=True,
        must_be_mount=storage.is_mount,
    )
    return JobFolder(mount, sorted(nodes, key=lambda node: (node.pk not in ran_on, node.name)))
