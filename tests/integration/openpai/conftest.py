"""A cluster of scripted nodes, and OpenPAI's API as its clients meet it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.integration.accounts.conftest import _fast_hash as _fast_hash
from tests.support.people import openpai_contract as contract

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse

    from portal.accounts.models import Scope, User
    from tests.support.cluster.world import World


class Pai:
    """Calls of OpenPAI's API with a token (or with none). Every answer is held against OpenPAI's own document."""

    def __init__(self, user: User | None = None, *, scope: Scope | None = None, token: str = "") -> None:
        from django.utils import timezone

        from portal.accounts.models import Scope
        from portal.accounts.services import token_create

        if user is not None:
            kind = scope or Scope.ADMIN
            token = token_create(user=user, name="t", scope=kind, now=timezone.now(), expires_at=None).secret
        self.token = token
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json"
    ) -> _MonkeyPatchedWSGIResponse:
        from django.test import Client

        from tests.support.people.cast import HOST

        data = body if isinstance(body, str | bytes) else json.dumps(body) if body is not None else ""
        client = Client(HTTP_HOST=HOST)
        answer = client.generic(method, f"/rest-server/api/v2/{path}", data, kind, headers=self.headers)
        if not answer.streaming:
            where = f"/api/v2/{urlsplit(path).path}"
            contract.check(method, where, answer.status_code, answer.headers["Content-Type"], answer.content)
        return answer

    def get(self, path: str) -> Any:
        """The answer's JSON; the request must succeed."""
        return self.done("GET", path, 200)

    def done(self, method: str, path: str, status: int, body: Any = None) -> Any:
        """The answer's JSON; it must have this status."""
        answer = self.call(method, path, body)
        assert answer.status_code == status, answer.content
        return json.loads(answer.content)

    def refused(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> tuple[int, str]:
        """Status and code of a refusal."""
        answer = self.call(method, path, body, kind=kind)
        return answer.status_code, json.loads(answer.content)["code"]

    def submit(self, text: str) -> _MonkeyPatchedWSGIResponse:
        return self.call("POST", "jobs", text, kind="text/yaml")


@pytest.fixture
def pai(world: World) -> Pai:
    """As alice, who is in the virtual cluster ``vision``."""
    return Pai(world.user)


@pytest.fixture
def root(world: World) -> Pai:
    """As an administrator."""
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    return Pai(person("root", ClusterRole.ADMIN))
