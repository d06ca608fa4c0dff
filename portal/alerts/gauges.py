"""Portal-wide gauges for Prometheus, computed from rows and the last minute's readings on each scrape: every web
process answers the same. Counters of a single process are defined where they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, F, FloatField, Min, Sum
from django.db.models.functions import Cast
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from portal.alerts.every import alerts_all
from portal.cluster.selectors.overview import overview_all
from portal.data_folder.models import Backup
from portal.hardware.models import Gpu, Node, ReportsLane
from portal.hardware.selectors.live import gpus_live
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.states import JOB_LIVE, JobState
from portal.scheduler.models import CycleLease
from portal.teams.models import VirtualCluster

STATES = sorted(str(state) for state in JOB_LIVE)
READINGS = {
    "utilisation": ("berth_gpu_utilisation_percent", "What a GPU was used in the newest sample of its node"),
    "sm_active": ("berth_gpu_sm_active_percent", "Multiprocessors of a GPU at work (DCGM: PROF_SM_ACTIVE)"),
    "sm_occupancy": ("berth_gpu_sm_occupancy_percent", "Warps that its multiprocessors hold (PROF_SM_OCCUPANCY)"),
    "tensor_active": ("berth_gpu_tensor_active_percent", "Tensor cores of a GPU at work (PROF_PIPE_TENSOR_ACTIVE)"),
    "dram_active": ("berth_gpu_dram_active_percent", "Memory bandwidth of a GPU in use (PROF_DRAM_ACTIVE)"),
    "memory_used_mb": ("berth_gpu_memory_used_mebibytes", "Memory in use on a GPU"),
    "temperature_c": ("berth_gpu_temperature_celsius", "Temperature of a GPU"),
    "power_w": ("berth_gpu_power_watts", "Power that a GPU draws"),
}


def gauges(*, now: datetime) -> bytes:
    """Prometheus text format. A fixed number of queries, and one request to Redis."""
    registry = CollectorRegistry()
    registry.register(_Gauges(now))
    return generate_latest(registry)


class _Gauges(Collector):
    def __init__(self, now: datetime) -> None:
        self._now = now

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Empty, so that registering runs no queries."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._jobs()
        yield from self._hardware()
        yield from self._readings()
        yield from self._portal()

    def _jobs(self) -> Iterator[GaugeMetricFamily]:
        jobs = GaugeMetricFamily("berth_jobs", "Jobs that are not over", labels=["vc", "state"])
        live = Job.objects.filter(state__in=STATES)
        counts = {(vc, state): 0 for vc in VirtualCluster.objects.values_list("name", flat=True) for state in STATES}
        counts.update(
            ((vc, state), count)
            for vc, state, count in live.order_by().values_list("vc__name", "state").annotate(count=Count("pk"))
        )
        for labels, count in sorted(counts.items()):
            jobs.add_metric(labels, count)
        yield jobs
        oldest = live.filter(state=JobState.WAITING, paused=False).aggregate(at=Min("submitted_at"))["at"]
        yield _one(
            "berth_queue_oldest_seconds",
            "How long ago the oldest of the waiting jobs was submitted",
            (self._now - oldest).total_seconds() if oldest else 0,
        )
        open_logs = TaskAttempt.objects.filter(removed_at__isnull=True, log_end__gt=F("archived_to"))
        behind = Cast(F("log_end") - F("archived_to"), FloatField())  # the sum may exceed an integer
        lag = open_logs.aggregate(bytes=Sum(behind))["bytes"]
        yield _one("berth_log_lag_bytes", "Of logs, what nodes have and the archive has not", lag or 0)

    def _hardware(self) -> Iterator[GaugeMetricFamily]:
        gpus = GaugeMetricFamily("berth_gpus", "GPUs by what they are", labels=["sku", "place"])
        for sku, places in sorted(overview_all().sums.items()):
            for place, count in places.items():
                gpus.add_metric([sku, str(place)], count)
        yield gpus
        nodes = GaugeMetricFamily("berth_nodes", "Servers by health and intent", labels=["health", "intent"])
        for health, intent, count in (
            Node.objects.order_by().values_list("health", "intent").annotate(count=Count("pk"))
        ):
            nodes.add_metric([health, intent], count)
        yield nodes

    def _readings(self) -> Iterator[GaugeMetricFamily]:
        cards = list(Gpu.objects.order_by("node__name", "index").values_list("uuid", "node__name", "index"))
        live = gpus_live(nodes=sorted({node for _, node, _ in cards}))
        for field, (name, words) in READINGS.items():
            family = GaugeMetricFamily(name, words, labels=["node", "gpu", "uuid"])
            for uuid, node, index in cards:
                value = getattr(live[node, uuid].reading, field) if (node, uuid) in live else None
                if value is not None:
                    family.add_metric([node, str(index), uuid], value)
            yield family

    def _portal(self) -> Iterator[GaugeMetricFamily]:
        alerts = GaugeMetricFamily("berth_alerts", "What is wrong now", labels=["code", "severity"])
        found = Counter((one.code, str(one.severity)) for one in alerts_all(now=self._now))
        for labels, count in sorted(found.items()):
            alerts.add_metric(labels, count)
        yield alerts
        ages = {
            "berth_scheduler_silent_seconds": (
                "Since the scheduler's lease was last held", CycleLease.objects.values_list("until", flat=True).first()
            ),
            "berth_reports_silent_seconds": (
                "Since a worker last took reports in",
                ReportsLane.objects.values_list("last_pulse_at", flat=True).first(),
            ),
            "berth_backup_age_seconds": (
                "Since the moment that the last backup holds",
                Backup.objects.order_by("-made_at").values_list("made_at", flat=True).first(),
            ),
        }  # fmt: skip
        for name, (words, at) in ages.items():
            if at is not None:
                yield _one(name, words, max(0.0, (self._now - at).total_seconds()))


def _one(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)
