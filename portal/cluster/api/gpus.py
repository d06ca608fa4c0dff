"""REST: every GPU of the cluster."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.cluster.api.answers import HolderAnswer
from portal.cluster.api.nodes import holder_told
from portal.cluster.selectors.gpus import GpuRow, GpuState, gpu_restrict, gpu_rows, gpus_held_by, gpus_in_state
from portal.common.filters import ChoicesFilter, GivenFilter, MomentFilter, NamedFilter
from portal.common.pagination import OldestFirst
from portal.common.serializers import Answer
from portal.common.shapes import Shape
from portal.hardware.models import Gpu, GpuCount, Node, Sku
from portal.hardware.selectors.history import gpu_counts
from portal.teams.selectors.visible import JobSight, job_sight

STATES = [(str(state), str(state)) for state in GpuState]


class ProcessAnswer(Shape):
    """A process on a GPU."""

    pid = serializers.IntegerField(help_text="on its node")
    memory_mb = serializers.IntegerField()
    utilisation = serializers.IntegerField(allow_null=True, help_text="percent of the GPU's time that it had of late")
    foreign = serializers.BooleanField(help_text="its node says that it belongs to no task")


def _percent(words: str) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, help_text=f"percent of {words}; GPUs from Hopper on tell it")


class ReadingAnswer(Shape):
    """What a GPU showed last; null: it does not tell."""

    at = serializers.DateTimeField()
    utilisation = serializers.IntegerField(allow_null=True, help_text="percent of the time with any kernel")
    sm_active = _percent("its multiprocessors at work")
    sm_occupancy = _percent("the warps that its multiprocessors can hold")
    tensor_active = _percent("the time of its tensor cores")
    dram_active = _percent("its memory's bandwidth")
    memory_used_mb = serializers.IntegerField(allow_null=True)
    power_w = serializers.IntegerField(allow_null=True)
    temperature_c = serializers.IntegerField(allow_null=True)
    processes = ProcessAnswer(many=True)


class LeafAnswer(Answer):
    """A GPU."""

    id = serializers.IntegerField()
    node = serializers.CharField()
    index = serializers.IntegerField(help_text="as the node counts")
    cell = serializers.CharField(allow_null=True, help_text="its address as a leaf cell; null: it has no place")
    uuid = serializers.CharField()
    sku = serializers.CharField()
    model = serializers.CharField()
    memory_mb = serializers.IntegerField()
    state = serializers.ChoiceField(
        STATES,
        help_text="`faulty`: fenced off or gone; `held`: by a task; `unavailable`: its node takes no tasks; `free`",
    )
    fault = serializers.CharField(allow_blank=True, help_text="why it is fenced off")
    holder = HolderAnswer(allow_null=True)
    reading = ReadingAnswer(allow_null=True, help_text="null: none in the last minute")


class GpuFilter(GivenFilter):
    """Filters of the list of GPUs."""

    of = Gpu

    node = NamedFilter(Node, "name", help_text="name of a node")
    sku = django_filters.CharFilter(field_name="cell_type__sku__name", help_text="name of a SKU")
    vc = django_filters.CharFilter(method="with_vc", help_text="held by jobs of this virtual cluster")
    state = ChoicesFilter(choices=STATES, method="with_state", help_text="one or several")

    def with_vc(self, rows: QuerySet[Gpu], name: str, value: str) -> QuerySet[Gpu]:
        return gpus_held_by(rows, vc=value)

    def with_state(self, rows: QuerySet[Gpu], name: str, value: list[str]) -> QuerySet[Gpu]:
        return gpus_in_state(rows, value) if value else rows


class GpuCountAnswer(Answer):
    """GPUs of a SKU at one moment. `free` and those held are well; `out`: nobody holds them and their node takes no
    tasks; `sick`: fenced off, gone, or on a lost node."""

    at = serializers.DateTimeField()
    sku = serializers.CharField(source="sku.name")
    held = serializers.IntegerField(help_text="inside quotas")
    lent = serializers.IntegerField(help_text="on loan")
    free = serializers.IntegerField()
    out = serializers.IntegerField()
    sick = serializers.IntegerField()


class GpuCountFilter(GivenFilter):
    """Filters of what was noted."""

    of = GpuCount

    sku = NamedFilter(Sku, "name", help_text="name of a SKU")
    since = MomentFilter(field_name="at", lookup_expr="gte", help_text="from then on")


class GpuHistoryView(ApiView):
    """GPUs over time."""

    pagination_class = OldestFirst
    filterset_class = GpuCountFilter

    @extend_schema(operation_id="gpu_history", responses=GpuCountAnswer(many=True))
    def get(self, request: Request) -> Response:
        """How many GPUs were held, on loan, free and sick, noted every five minutes and kept for 35 days."""
        return self.page(gpu_counts(user=self.user), GpuCountAnswer)


class GpusView(ApiView):
    """The GPUs."""

    pagination_class = OldestFirst
    filterset_class = GpuFilter
    orders = ("uuid", "memory_mb")

    @extend_schema(operation_id="gpu_list", responses=LeafAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Each GPU with its node and its place, who holds it, and what it showed last. Which job holds it is told to
        those who may see the job; of others' one reads owner and virtual cluster."""
        sight = job_sight(user=self.user)

        def leaves(gpus: list[Gpu]) -> list[dict[str, Any]]:
            return [_leaf(row, sight) for row in gpu_rows(ids=[gpu.pk for gpu in gpus])]

        return self.page(gpu_restrict(user=self.user).only("id", *self.orders), LeafAnswer, leaves)


def _leaf(row: GpuRow, sight: JobSight) -> dict[str, Any]:
    gpu, holder = row.gpu, row.holder
    return {
        **{name: getattr(gpu, name) for name in ("id", "index", "uuid", "model", "memory_mb", "fault")},
        "node": gpu.node.name,
        "cell": None if gpu.slot is None else f"{gpu.node.name}/{gpu.slot}",
        "sku": gpu.cell_type.sku.name,
        "state": str(row.state),
        "holder": None if holder is None else holder_told(holder, sight),
        "reading": None if row.live is None else _reading(row),
    }


_COLUMNS = (
    "utilisation", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "memory_used_mb", "power_w",
    "temperature_c",
)  # fmt: skip


def _reading(row: GpuRow) -> dict[str, Any]:
    assert row.live is not None
    told = row.live.reading
    processes = [
        {"pid": one.pid, "memory_mb": one.memory_mb, "utilisation": one.utilisation, "foreign": one.attempt is None}
        for one in told.processes
    ]
    return {"at": row.live.at, **{name: getattr(told, name) for name in _COLUMNS}, "processes": processes}
