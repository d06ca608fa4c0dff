"""The embedded stack's first rows: an administrator, this machine as a node, two sample virtual clusters."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from portal.accounts.models import ClusterRole, User
from portal.embedded.options import ADMIN, ELSEWHERE, closed_above
from portal.hardware.models import CellType, Gpu, Node
from portal.hardware.services.nodes import node_add
from portal.hardware.states import NodeHealth, VcRole
from portal.jobs.services.lost import node_tasks_lose
from portal.joining.services.joining import node_key_lost
from portal.storages.models import Storage
from portal.teams.models import QuotaLine, VirtualCluster
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create

SAMPLE_VCS = {"research": "A sample team", "default": "Another, which most of OpenPAI's job files name"}


@dataclass(frozen=True, slots=True)
class Seeded:
    """``password`` is set when the administrator was made just now; it is shown once and kept nowhere. ``new_key``:
    this machine's node had another key, which its state folder has not."""

    admin: User
    password: str | None
    new_key: bool


def jobs_folder(*, data: Path, as_others: bool) -> Path:
    """Where jobs have their folders: where they had them, else in the data folder; where jobs that run ``as_others``
    do not get through to that, in one of its own below ``ELSEWHERE``."""
    if kept := Storage.objects.filter(name="jobs").values_list("root", flat=True).first():
        return Path(kept)
    closed = as_others and closed_above(data)
    return ELSEWHERE / secrets.token_hex(4) if closed else data / "jobs"


def seed(*, node_name: str, node_key: str, jobs_folder: Path, now: datetime) -> Seeded:
    """Make what is missing; what is there stays as it is."""
    admin = User.objects.filter(username=ADMIN).first()
    password = None
    if admin is None:
        password = secrets.token_urlsafe(12)
        admin = User.objects.create_user(
            ADMIN, password=password, role=ClusterRole.ADMIN, is_staff=True, is_superuser=True, uid=1000, gid=1000
        )
    new_key = _node_own(name=node_name, public_key=node_key, now=now)
    jobs_folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    Storage.objects.get_or_create(
        name="jobs", defaults={"root": str(jobs_folder), "jobs": True, "must_be_mount": False}
    )
    for name, description in SAMPLE_VCS.items():
        if not VirtualCluster.objects.filter(name=name).exists():
            vc = vc_create(name=name, description=description, host_network=True, now=now)
            member_set(vc=vc, user=admin, role=VcRole.LEAD, now=now)
    return Seeded(admin, password, new_key)


def _node_own(*, name: str, public_key: str, now: datetime) -> bool:
    """This machine's node has the key that lies in its state folder: whether that is another one than it had. The
    folder is in no backup, so that the rows of a restored database name a key that nobody has. Whoever starts the
    stack has database and state folder in hand, and before its processes run no agent reports: so nothing is taken
    from anybody by the key. The tasks that the lost folder knew of end as those of a lost node do."""
    node = Node.objects.filter(name=name).exclude(public_key__in=["", public_key]).first()
    if node is None:
        node_add(name=name, public_key=public_key, now=now)
    # Whoever starts the stack is on the machine, and says by the settings what it offers.
    Node.objects.filter(name=name).update(accept_first=True)
    if node is None:
        return False
    node_tasks_lose(node=node, now=now)
    node_key_lost(node=node, public_key=public_key, now=now)
    return True


def node_ready(*, node_name: str) -> Node | None:
    """The node once it has reported."""
    return Node.objects.filter(name=node_name, health=NodeHealth.HEALTHY).first()


def quotas_share(*, now: datetime) -> None:
    """Share the GPUs equally between the sample virtual clusters, where none has a quota yet."""
    vcs = list(VirtualCluster.objects.filter(name__in=SAMPLE_VCS).order_by("name"))
    if not vcs or QuotaLine.objects.exists():
        return
    for cell_type in CellType.objects.filter(child__isnull=True):
        there = Gpu.objects.filter(cell_type=cell_type, present=True, slot__isnull=False).count()
        for place, vc in enumerate(vcs):
            share = there // len(vcs) + (place < there % len(vcs))
            quota_set(vc=vc, cell_type=cell_type, count=share, now=now)
