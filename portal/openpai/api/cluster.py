"""OpenPAI's REST API: virtual clusters, storages, alerts, and what stood in Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from portal.alerts.alert import Severity
from portal.alerts.seen import alerts_seen
from portal.cluster.selectors.loads import NodeLoad, node_loads
from portal.hardware.models import Sku
from portal.hardware.states import NodeHealth, NodeIntent
from portal.jobs.models import TaskAttempt
from portal.openpai.api.base import PaiView
from portal.openpai.errors import no_vc
from portal.openpai.names import framework_name
from portal.openpai.selectors.cluster import Amount, VcLoad, pods, sku_units, user_storage, vc_loads
from portal.openpai.states import container_shown
from portal.storages.models import Storage
from portal.storages.selectors.storages import storage_restrict
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import node_restrict, vc_restrict

GPU = "nvidia.com/gpu"
NAMESPACE = "default"
"""OpenPAI runs its jobs in this Kubernetes namespace."""


ALERT_NAMES = {"node_lost": "NodeNotReady", "gpu_faulty": "GpuFault"}
"""OpenPAI's own names; others are ours as it would write them."""
SEVERITIES = {Severity.CRITICAL: "error", Severity.WARNING: "error", Severity.INFO: "warn"}


class VirtualClustersView(PaiView):
    """All virtual clusters."""

    def get(self, request: Request) -> Response:
        loads = vc_loads(vcs=list(vc_restrict(user=self.user).order_by("name")))
        return Response({name: _vc(load) for name, load in loads.items()})


class VirtualClusterView(PaiView):
    """One virtual cluster."""

    def get(self, request: Request, vc: str) -> Response:
        return Response(_vc(vc_loads(vcs=[self.found(vc)])[vc]))

    def found(self, name: str) -> VirtualCluster:
        """The virtual cluster of that name, or NoVirtualClusterError."""
        seen = vc_restrict(user=self.user)
        vc = seen.filter(name=name).first()
        if vc is None:
            raise no_vc(name, seen.values_list("name", flat=True))
        return vc


class SkuTypesView(VirtualClusterView):
    """The SKUs of a virtual cluster, or of the whole cluster."""

    def get(self, request: Request, vc: str = "") -> Response:
        name = vc or request.query_params.get("vc", "")
        units = sku_units(vc=self.found(name) if name else None)
        return Response({name: _sku(sku) for name, sku in units.items()})


def _sku(sku: Sku) -> dict[str, int]:
    return {"cpu": sku.cpu_milli // 1000, "memory": sku.memory_mb, "gpu": 1}


def _vc(load: VcLoad) -> dict[str, Any]:
    share = _percent(load.total.gpu, load.cluster_gpus)
    return {
        "capacity": share,
        "usedCapacity": _percent(load.used.gpu, load.cluster_gpus),
        "dedicated": False,
        "resourcesUsed": _amount(load.used),
        "resourcesGuaranteed": _amount(load.good),
        "resourcesTotal": _amount(load.total),
        "maxCapacity": share,
    }


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0


def _amount(one: Amount) -> dict[str, int]:
    return {"cpu": one.cpu, "memory": one.memory_mb, "gpu": one.gpu, "vCores": one.cpu, "GPUs": one.gpu}


class StoragesView(PaiView):
    """The storages that one's jobs may mount."""

    def get(self, request: Request) -> Response:
        storages = storage_restrict(user=self.user).order_by("name")
        if request.query_params.get("default") == "true":
            storages = storages.filter(jobs=True)
        return Response({"storages": [_storage(one) for one in storages]})


class StorageView(PaiView):
    """One storage."""

    def get(self, request: Request, storage: str) -> Response:
        found = user_storage(user=self.user, name=storage)
        server, _, path = found.export.partition(":")
        nfs = found.kind == "nfs"
        return Response(
            {
                **_storage(found),
                "type": "nfs" if nfs else "other",
                "data": {"server": server, "path": path} if nfs else {},
                "readOnly": found.only_read,
                "secretName": "",
                "mountOptions": [],
            }
        )


def _storage(one: Storage) -> dict[str, Any]:
    return {"name": one.name, "share": not one.per_user, "volumeName": one.name, "default": one.jobs}


class AlertsView(PaiView):
    """What fires now, as Prometheus tells it."""

    def get(self, request: Request) -> Response:
        return Response(
            [
                {
                    "labels": {
                        "alertname": ALERT_NAMES.get(one.code) or one.code.title().replace("_", ""),
                        "severity": SEVERITIES[one.severity],
                        **({"node_name": one.node} if one.node else {}),
                    },
                    "annotations": {"summary": one.message},
                    "state": "firing",
                }
                for one in alerts_seen(user=self.user, now=timezone.now())
            ]
        )


class K8sNodesView(PaiView):
    """The nodes, in the fields of Kubernetes that clients read."""

    def get(self, request: Request) -> Response:
        self.admin_only()
        loads = node_loads(nodes=list(node_restrict(user=self.user).select_related("sku").order_by("name")))
        return Response({"kind": "NodeList", "apiVersion": "v1", "items": [_node(load) for load in loads]})


def _node(load: NodeLoad) -> dict[str, Any]:
    node = load.node
    usable = sum(place.gpu.usable for place in load.gpus)
    ready = node.health == NodeHealth.HEALTHY
    return {
        "metadata": {
            "name": node.name,
            "labels": {"kubernetes.io/hostname": node.name, **({"sku": node.sku.name} if node.sku else {})},
        },
        "spec": {"unschedulable": node.intent != NodeIntent.OPEN or node.shut},
        "status": {
            "capacity": _resources(node.cpu_milli, node.memory_mb, len(load.gpus)),
            "allocatable": _resources(node.cpu_milli, node.memory_mb, usable),
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False", "message": node.health_reason},
            ],
            "addresses": [
                {"type": "InternalIP", "address": node.address}, {"type": "Hostname", "address": node.name},
            ],
        },
    }  # fmt: skip


def _resources(cpu_milli: int, memory_mb: int, gpus: int) -> dict[str, str]:
    return {"cpu": f"{cpu_milli}m", "memory": f"{memory_mb}Mi", GPU: str(gpus)}


class K8sPodsView(PaiView):
    """The runs of tasks that hold something, in the fields of Kubernetes that clients read."""

    def get(self, request: Request) -> Response:
        self.admin_only()
        namespace = request.query_params.get("namespace", NAMESPACE)
        items = [_pod(run) for run in pods()] if namespace == NAMESPACE else []
        return Response({"kind": "PodList", "apiVersion": "v1", "items": items})


_PHASES: Mapping[str, str] = {"WAITING": "Pending", "RUNNING": "Running", "SUCCEEDED": "Succeeded"}


def _pod(run: TaskAttempt) -> dict[str, Any]:
    job, role = run.task.job, run.task.role.name
    name = f"{framework_name(job)}-{role}-{run.task.index}"
    shown = container_shown(state=run.state, lost=run.lost_at is not None, code=run.exit_code, stopped=False)
    gpus = sum(held.released_at is None for held in run.allocations.all())
    resources = _resources(run.cpu_milli, run.memory_mb, gpus)
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": str(run.pk),
            "creationTimestamp": run.created_at.isoformat(),
            "labels": {
                "jobName": framework_name(job),
                "userName": job.user.username,
                "virtualCluster": job.vc.name,
                "FC_TASKROLE_NAME": role,
                "FC_TASK_INDEX": str(run.task.index),
            },
        },
        "spec": {
            "nodeName": run.node.name,
            "containers": [{"name": "app", "resources": {"limits": resources, "requests": resources}}],
        },
        "status": {"phase": _PHASES.get(shown, "Failed"), "hostIP": run.node.address, "podIP": run.node.address},
    }
