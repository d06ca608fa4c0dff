"""REST: storages."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import IF_MATCH, ApiView, versioned
from portal.common.filters import GivenFilter, truth_filter
from portal.common.pagination import ByName
from portal.common.rows import RowAnswer, RowBody
from portal.common.serializers import Answer, Body, Text
from portal.hardware.states import NodeHealth
from portal.storages.models import COLUMNS, Storage
from portal.storages.selectors.storages import (
    StoragePlaces,
    storage_get,
    storage_right,
    storage_to_manage,
    storages_placed,
    storages_seen,
)
from portal.storages.selectors.ties import storage_servers
from portal.storages.services.storages import storage_change, storage_create, storage_remove, storage_told
from portal.storages.services.ties import storage_tie
from portal.storages.ties import SEEN, UNSEEN, UNTRIED
from portal.teams.selectors.visible import node_get, vcs_named

PLACES = ("nodes", "missing", "untied", "unguarded")
MOST_VCS = 1000
MOST_SERVERS = 10_000


class StorageChangeBody(RowBody):
    """What shall be different; what is not named stays."""

    change = True
    virtual_clusters = serializers.ListField(
        child=Text(max_length=64), max_length=MOST_VCS, required=False, help_text="whose jobs may use it"
    )

    class Meta:
        model = Storage
        fields: tuple[str, ...] = (*COLUMNS, "virtual_clusters")


class StorageBody(StorageChangeBody):
    servers = serializers.ListField(
        child=Text(max_length=64), max_length=MOST_SERVERS, required=False,
        help_text="accepted servers that it is tied to, and no others; none: of `nfs` all, else those of which its "
        "folder was accepted",
    )  # fmt: skip

    class Meta(StorageChangeBody.Meta):
        fields = ("name", *COLUMNS, "virtual_clusters", "servers")
        extra_kwargs = dict.fromkeys(("name", "root"), {"required": True})


class TieBody(Body):
    tied = serializers.BooleanField(
        help_text="it answers requests for files there, also of jobs that ran elsewhere, and gets tasks that need it"
    )


class StorageServerAnswer(Answer):
    """An accepted server and the storage."""

    node = serializers.CharField(source="node.name")
    health = serializers.ChoiceField(NodeHealth.choices, source="node.health")
    tied = serializers.BooleanField(
        help_text="it answers requests for files there, also of jobs that ran elsewhere, and gets tasks that need it"
    )
    offered = serializers.BooleanField(help_text="it has it, by its last report, and its folder was accepted")
    fault = Text(allow_blank=True, help_text="why it has it not, in its words")
    proof = serializers.ChoiceField(
        ["", SEEN, UNSEEN, UNTRIED],
        help_text="whether it read there what another server had written: `seen`, `unseen`, `untried` (nobody could "
        "try); empty: its turn has not come, or there is no other server",
    )
    proof_by = serializers.CharField(allow_blank=True, help_text="which server wrote")
    proof_why = Text(allow_blank=True, help_text="why nobody could try")


class StorageAnswer(RowAnswer):
    virtual_clusters = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="whose jobs may use it"
    )
    nodes = serializers.ListField(child=serializers.CharField(), help_text="healthy ones that offer it now")
    missing = serializers.ListField(child=serializers.CharField(), help_text="healthy nodes that do not")
    untied = serializers.ListField(
        child=serializers.CharField(), help_text="healthy nodes that an administrator untied from it"
    )
    unguarded = serializers.ListField(
        child=serializers.CharField(), help_text="of `nodes` those where setuid programs count that jobs leave in it"
    )

    class Meta:
        model = Storage
        fields = ("name", *COLUMNS, "virtual_clusters", *PLACES)


class StorageFilter(GivenFilter):
    """Filters of the list of storages."""

    of = Storage

    name = django_filters.CharFilter(lookup_expr="icontains", help_text="part of its name")
    vc = django_filters.CharFilter(field_name="vcs__name", help_text="given to this virtual cluster by name")
    jobs = truth_filter(help_text="job folders lie there")


class StoragesView(ApiView):
    """The storages."""

    pagination_class = ByName
    filterset_class = StorageFilter
    orders = ("root",)
    problems = (409,)

    @extend_schema(operation_id="storage_list", responses=StorageAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Storages by name, and which nodes offer each now. Administrators and auditors see all, others those that
        their jobs may mount."""
        rows = storages_seen(user=self.user).prefetch_related("vcs")
        return self.page(rows, StorageAnswer, lambda storages: map(_shown, storages_placed(storages=storages)))

    @extend_schema(operation_id="storage_create", request=StorageBody, responses={201: StorageAnswer})
    def post(self, request: Request) -> Response:
        """A new storage; 409 when the name is taken, or another holds the job folders. Each node must allow its root,
        and mount it. For administrators."""
        storage_right(user=self.user)
        body = self.body(StorageBody)
        vcs = vcs_named(body.pop("virtual_clusters", []))
        return _answer(storage_create(**body, vcs=vcs, **self.by), status=201)


class StorageView(ApiView):
    """One storage."""

    problems = (409,)

    @extend_schema(operation_id="storage", responses=StorageAnswer)
    def get(self, request: Request, name: str) -> Response:
        """The storage and which nodes offer it now, with an ETag."""
        return _answer(storage_get(user=self.user, name=name))

    @extend_schema(
        operation_id="storage_change", request=StorageChangeBody, parameters=[IF_MATCH], responses=StorageAnswer
    )
    def patch(self, request: Request, name: str) -> Response:
        """Changes what is named. Its place (`kind`, `root`, `jobs`) does not change while jobs that are not over use
        it: 409. Jobs that were submitted before keep what they may mount. For administrators."""
        storage, changes = storage_to_manage(user=self.user, name=name), self.changes(StorageChangeBody)
        named = changes.pop("virtual_clusters", None)
        changed = storage_change(storage=storage, changes=changes, virtual_clusters=named, seen=self.seen(), **self.by)
        return _answer(changed)

    @extend_schema(operation_id="storage_remove", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Forgets the storage; what lies in it stays. 409 while jobs that are not over use it. For administrators."""
        storage = storage_to_manage(user=self.user, name=name)
        storage_remove(storage=storage, **self.by)
        return Response(status=204)


class StorageServersView(ApiView):
    """The servers of a storage."""

    pagination_class = None

    @extend_schema(operation_id="storage_servers", responses=StorageServerAnswer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """Every accepted server, and whether it is tied to the storage. For administrators."""
        storage = storage_to_manage(user=self.user, name=name)
        return self.listed(storage_servers(storage=storage), StorageServerAnswer)


class StorageServerView(ApiView):
    """A server and a storage."""

    problems = (409,)

    @extend_schema(operation_id="storage_tie", request=TieBody, responses=StorageServerAnswer)
    def put(self, request: Request, name: str, node: str) -> Response:
        """Ties the server to the storage, which accepts the storage's folder there, or unties it: then it answers only
        for jobs that ran on it, and no new task that needs the storage is placed there. What runs goes on. 409 for a
        server that waits to be accepted. For administrators."""
        storage = storage_to_manage(user=self.user, name=name)
        row = node_get(user=self.user, name=node)
        storage_tie(storage=storage, node=row, **self.body(TieBody), **self.by)
        found = next(one for one in storage_servers(storage=storage) if one.node.pk == row.pk)
        return Response(StorageServerAnswer(found).data)


def _answer(storage: Storage, status: int = 200) -> Response:
    (placed,) = storages_placed(storages=[storage])
    return versioned(StorageAnswer(_shown(placed)), storage_told(storage), status)


def _shown(placed: StoragePlaces) -> dict[str, Any]:
    places = {name: getattr(placed, name) for name in PLACES}
    return {"name": placed.storage.name, **storage_told(placed.storage), **places}
