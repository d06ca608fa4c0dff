"""Prepares a stack's database through the portal's own services: `python -m tests.support.cluster.seed GIVEN MADE`.

Reads {"nodes": {name: public key}, "jobs_root": path} from the file GIVEN. Migrates an empty database, makes the users
of USERS with a token each, the virtual clusters, the nodes and the storage of job folders, and writes
{"tokens": {user: secret}, "portal_public_key": text, "redis": {node: address with its account}} to the file MADE.
Then waits until every node reports, shares the GPUs equally between the virtual clusters, and ends.
"""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import django

from tests.support.run.waiting import wait_until

PASSWORD = "correct-horse-battery"
# Alice leads research and Bob is in it; Carol is in vision; Dave is in none; root administers the cluster.
USERS = {"root": "admin", "alice": "user", "bob": "user", "carol": "user", "dave": "user"}
MEMBERS = [("research", "alice", "lead"), ("research", "bob", "member"), ("vision", "carol", "member")]


def quick_passwords() -> None:
    """Hash passwords in a moment: the algorithm stays, and the hash itself says how many rounds it took."""
    from django.contrib.auth.hashers import PBKDF2PasswordHasher

    PBKDF2PasswordHasher.iterations = 100


def people(given: dict[str, Any], now: datetime) -> dict[str, Any]:
    from django.conf import settings

    from portal.accounts.models import ClusterRole, Scope, User
    from portal.accounts.services import token_create, user_create
    from portal.hardware.services.nodes import node_add
    from portal.hardware.services.redis_accounts import redis_address
    from portal.storages.models import Storage
    from portal.teams.services.teams import member_set, vc_create

    users = {
        name: user_create(username=name, password=PASSWORD, role=ClusterRole(role)) for name, role in USERS.items()
    }
    for number, user in enumerate(users.values(), start=20001):
        User.objects.filter(pk=user.pk).update(uid=number, gid=number)
    vcs = {name: vc_create(name=name, host_network=True, now=now) for name in ("research", "vision")}
    for vc_name, user_name, role in MEMBERS:
        member_set(vc=vcs[vc_name], user=users[user_name], role=role, now=now)
    redis = {
        name: redis_address(node_add(name=name, public_key=public_key, now=now, accept=True, cpu_tasks=True))
        for name, public_key in given["nodes"].items()
    }
    Storage.objects.create(name="jobs", root=given["jobs_root"], jobs=True, everyone=True, must_be_mount=False)
    tokens = {
        name: token_create(user=user, name="tests", scope=Scope.ADMIN, now=now, expires_at=None).secret
        for name, user in users.items()
    }
    return {"tokens": tokens, "portal_public_key": settings.PORTAL_KEY.public, "redis": redis}


def prepare() -> None:
    """Migrations where there are no tables yet."""
    from django.core.management import call_command
    from django.db import connection

    if not connection.introspection.table_names():
        call_command("migrate", verbosity=0)


def wait_for_nodes(count: int) -> None:
    from portal.hardware.models import Node
    from portal.hardware.states import NodeHealth

    healthy = Node.objects.filter(health=NodeHealth.HEALTHY)
    wait_until(lambda: healthy.count() == count, f"{count} nodes to report", deadline_s=90, every_s=0.2)


def quota(now: datetime) -> None:
    from django.db.models import Count

    from portal.hardware.models import CellType
    from portal.teams.models import VirtualCluster
    from portal.teams.services.quotas import quota_set

    vcs = list(VirtualCluster.objects.all())
    for cell_type in CellType.objects.annotate(there=Count("gpus")).filter(there__gt=0):
        for vc in vcs:
            quota_set(vc=vc, cell_type=cell_type, count=cell_type.there // len(vcs), now=now)


def main() -> None:
    django.setup()
    quick_passwords()
    from django.utils import timezone

    given, made = json.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
    prepare()
    whole = made.with_suffix(".part")
    whole.write_text(json.dumps(people(given, timezone.now())))
    whole.rename(made)
    wait_for_nodes(len(given["nodes"]))
    quota(timezone.now())


if __name__ == "__main__":
    main()
