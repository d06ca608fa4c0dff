"""People in every relation that the table of rights knows, and the REST API as each of them meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ClusterRole, Scope, User
from portal.accounts.services import token_create
from portal.teams.models import Membership, VirtualCluster
from portal.teams.services.teams import member_set, vc_create

HOST = "127.0.0.1"

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse


class Api:
    """Calls of ``/api/v1/`` with a token (or with none)."""

    def __init__(self, user: User | None = None, *, scope: Scope = Scope.ADMIN) -> None:
        self.headers: dict[str, str] = {}
        if user is not None:
            made = token_create(user=user, name="tests", scope=scope, now=timezone.now(), expires_at=None)
            self.headers["Authorization"] = f"Bearer {made.secret}"
            self.token = made.token

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **headers: str
    ) -> _MonkeyPatchedWSGIResponse:
        """One request; ``body`` is sent as it is where it is text or bytes, else as JSON."""
        data = body if isinstance(body, str | bytes) else json.dumps(body) if body is not None else ""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client = Client(HTTP_HOST=HOST)
        return client.generic(method, f"/api/v1/{path}", data, kind, headers={**self.headers, **named})

    def get(self, path: str) -> Any:
        """The answer's JSON; the request must succeed."""
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.content
        return json.loads(answer.content)

    def names(self, path: str, key: str) -> list[Any]:
        """One field of every row of a list."""
        return [row[key] for row in self.get(path)["results"]]


def cookie_of(user: User) -> str:
    """The header by which a browser in which this user is logged in shows it."""
    client = Client(HTTP_HOST=HOST)
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def person(name: str, role: ClusterRole = ClusterRole.USER) -> User:
    """An account without a password, which would take its time to hash."""
    user = User(username=name, role=role)
    user.set_unusable_password()
    user.save()
    return user


def cast_of(vc: VirtualCluster, owner: User) -> dict[str, User]:
    """A person for each relation to ``vc`` and to the jobs of ``owner``, who is in no virtual cluster any more.

    Members and leads are there twice: directly, and by a group.
    """
    now = timezone.now()
    people = {name: person(name) for name in ("lead", "member", "group_lead", "group_member", "other", "nobody")}
    people["admin"] = person("admin", ClusterRole.ADMIN)
    people["auditor"] = person("auditor", ClusterRole.AUDITOR)
    people["owner"] = owner
    for role in ("lead", "member"):
        member_set(vc=vc, user=people[role], role=role, now=now)
        group = Group.objects.create(name=f"{role}s")
        people[f"group_{role}"].groups.add(group)
        Membership.objects.create(vc=vc, group=group, role=role)
    Membership.objects.filter(user=owner).delete()
    member_set(vc=vc_create(name="elsewhere", now=now), user=people["other"], role="lead", now=now)
    return people
