"""Calls of every address of the REST API that reads, for benchmarks: what is there says the OpenAPI document, so that
none is forgotten; what is asked for is drawn from the database."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.utils import timezone

if TYPE_CHECKING:
    from portal.accounts.models import User

BASE = "/api/v1"
LEFT_OUT = {"/openapi.json"}
VARIANTS = 16
"""So many addresses for each operation and reader."""

OTHERWISE = {"cursor", "task_attempt", "index", "format"}
"""Parameters whose values hang on the row."""

TIMES = {"since": -30, "until": -60}
"""Days from now of filters by time."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An address that can be read, with the parameters that it takes."""

    name: str
    path: str
    parameters: dict[str, dict[str, Any]]
    required: frozenset[str]

    @property
    def is_list(self) -> bool:
        """Whether it has pages by cursor."""
        return "cursor" in self.parameters


def operations(document: dict[str, Any]) -> list[Operation]:
    """Every GET of the document."""
    found = []
    for path, methods in document["paths"].items():
        short = path.removeprefix(BASE)
        if "get" in methods and short not in LEFT_OUT:
            asked = [one for one in methods["get"].get("parameters", []) if one["in"] == "query"]
            described = {one["name"]: one["schema"] for one in asked}
            required = frozenset(one["name"] for one in asked if one.get("required"))
            found.append(Operation(methods["get"]["operationId"], short, described, required))
    return found


class Reader:
    """Somebody who reads, and addresses that this reader would open."""

    def __init__(self, role: str, user: User, seed: int = 3) -> None:
        from django.contrib.auth.models import Group

        from portal.accounts.models import Scope
        from portal.accounts.services import token_create
        from portal.hardware.models import Node
        from portal.jobs.selectors.visible import job_restrict
        from portal.storages.models import Storage
        from portal.teams.models import VirtualCluster
        from portal.templates.models import JobTemplate

        self.role, self.user, self._rng = role, user, random.Random(seed)
        self.token = token_create(
            user=user, name=f"bench-{role}", scope=Scope.READ, now=timezone.now(), expires_at=None
        ).secret
        seen = job_restrict(user=user)
        newest = seen.order_by("-id").values_list("pk", flat=True).first() or 1
        drawn = self._rng.sample(range(1, newest + 1), min(newest, 4000))
        self.jobs = list(seen.filter(pk__in=drawn).values_list("pk", flat=True)[:300])
        self.jobs += seen.filter(state__in=["running", "waiting"]).order_by("id").values_list("pk", flat=True)[:60]
        self.values: dict[str, list[str]] = {
            "vc": list(VirtualCluster.objects.values_list("name", flat=True)),
            "user": list(type(user).objects.values_list("username", flat=True)),
            "storage": list(Storage.objects.values_list("name", flat=True)),
            "username": list(type(user).objects.values_list("username", flat=True)),
            "group": list(Group.objects.values_list("name", flat=True)) or ["no-such-group"],
            "template_id": [str(key) for key in JobTemplate.objects.values_list("pk", flat=True)] or ["1"],
            "pattern": ["nvcr.io", "e"],
            "text": ["filled", "7", "no-such-text"],
            "node": list(Node.objects.values_list("name", flat=True)),
            "name": ["llama", "resnet", "notebook", "no-such-name", "e"],
            "role": ["worker"],
            "code": ["running", "requeued"],
            "rack": ["none"],
            "attempt": ["1"],
            "limit": ["10", "50", "200"],
            "offset": ["0", "50", "5000"],
        }

    def addresses(self, operation: Operation) -> Iterator[str]:
        """Some of them plain, the others with filters, orders, fields and cursors deep in the list."""
        for number in range(VARIANTS):
            path = self._filled(operation.path)
            query = self._query(operation, fully=bool(number % 2))
            yield f"{BASE}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")

    def _filled(self, path: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] == "job_id":
                return str(self._rng.choice(self.jobs))
            if found[1] in self.values and found[1] != "name":  # of a node or a team; as a filter, a job's
                return self._rng.choice(self.values[found[1]])
            kind = {"nodes": "node", "storages": "storage"}.get(path.split("/")[1], "vc")
            return self._rng.choice(self.values[kind])

        return re.sub(r"\{(\w+)\}", value, path)

    def _query(self, operation: Operation, *, fully: bool) -> dict[str, str]:
        chosen: dict[str, str] = {}
        for name, shape in operation.parameters.items():
            chance = 1 if name in operation.required else 0.3 if fully and name not in OTHERWISE else 0
            wanted = chance and self._rng.random() < chance
            if wanted and (value := self._value(operation, name, shape)):
                chosen[name] = value
        if fully and operation.is_list and self._rng.random() < 0.5:
            cursor = self._cursor(operation, chosen)
            chosen |= {"cursor": cursor} if cursor else {}
        return chosen

    def _value(self, operation: Operation, name: str, shape: dict[str, Any]) -> str | None:
        known = shape.get("enum") or shape.get("items", {}).get("enum")
        if name == "fields":
            return ",".join(self._rng.sample(known, min(3, len(known))))
        if known:
            return str(self._rng.choice(known))
        if shape.get("format") == "date":
            return (timezone.now() - timedelta(days=30)).date().isoformat() if name == "from" else None
        if name in TIMES:
            return (timezone.now() + timedelta(days=TIMES[name] * self._rng.random())).isoformat()
        if shape.get("items", shape).get("type") == "boolean":
            return "true"
        return self._rng.choice(self.values[name]) if name in self.values else None

    def _cursor(self, operation: Operation, chosen: dict[str, str]) -> str | None:
        """Somewhere in the list in its order; only of lists whose rows do not hang on one job."""
        from portal.common.pagination import Place
        from portal.jobs.models import Job

        if operation.path != "/jobs":
            return None
        column = chosen.get("ordering", "-submitted_at").removeprefix("-")
        row = Job.objects.get(pk=self._rng.choice(self.jobs))
        field: Any = Job._meta.get_field(column)
        return Place(str(row.pk), None if column == "id" else field.value_to_string(row), back=False).text()
