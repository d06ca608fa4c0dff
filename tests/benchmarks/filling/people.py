"""Users, virtual clusters, and who is in them."""

from __future__ import annotations

from datetime import datetime

from portal.accounts.models import User
from portal.hardware.states import VcRole
from portal.people.services.people import group_create
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from portal.templates.services import template_create
from tests.benchmarks.filling.sizes import Sizes

FIRST_UID = 20_000
USER, VC = "filled-user", "filled-team"
"""What their names begin with."""

GROUP, TEMPLATE = "filled-group", "filled-template"
FILE = """\
protocolVersion: 2
name: hello
type: job
prerequisites:
- {name: image, type: dockerimage, uri: "python:3.12"}
taskRoles:
  hello:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 1}
    commands: ["python -c 'print(1)'"]
"""
"""What the template holds."""

NO_PASSWORD = "!"
"""Nobody signs in by it: an administrator gives passwords and tokens."""


def users_make(sizes: Sizes) -> list[User]:
    """``filled-user0001`` and so on."""
    width = max(4, len(str(sizes.users)))
    names = [f"{USER}{number:0{width}}" for number in range(1, sizes.users + 1)]
    rows = [
        User(username=name, email=f"{name}@example.org", password=NO_PASSWORD, uid=FIRST_UID + number, gid=FIRST_UID)
        for number, name in enumerate(names)
    ]
    return User.objects.bulk_create(rows)


def vcs_make(sizes: Sizes, users: list[User], now: datetime) -> dict[int, list[User]]:
    """``filled-team01`` and so on, each with a lead and a group; every fifth user is in a second one. And a
    template. The users by their virtual cluster's row id."""
    width = max(2, len(str(sizes.vcs)))
    names = [f"{VC}{number:0{width}}" for number in range(1, sizes.vcs + 1)]
    vcs = [vc_create(name=name, description=f"Team {number} of a made-up cluster", host_network=True, now=now)
           for number, name in enumerate(names, 1)]  # fmt: skip
    members: dict[int, list[User]] = {vc.pk: [] for vc in vcs}
    for number, user in enumerate(users):
        own, other = vcs[number % sizes.vcs], vcs[(number * 7 + 3) % sizes.vcs]
        _join(own, user, VcRole.LEAD if number < sizes.vcs else VcRole.MEMBER, members, now)
        if number % 5 == 0 and other != own:
            _join(other, user, VcRole.MEMBER, members, now)
    for vc in vcs:
        group_create(name=vc.name.replace(VC, GROUP), description="", roles={vc.name: VcRole.MEMBER}, now=now, actor="")
    template_create(home=None, name=TEMPLATE, description="", file=FILE, now=now, actor="")
    Storage.objects.get_or_create(name="jobs", defaults={"root": "/mnt/jobs", "jobs": True})
    return members


def _join(vc: VirtualCluster, user: User, role: str, members: dict[int, list[User]], now: datetime) -> None:
    member_set(vc=vc, user=user, role=role, now=now)
    members[vc.pk].append(user)
