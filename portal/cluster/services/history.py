"""Records GPU counts by state every few minutes."""

from __future__ import annotations

from datetime import datetime, timedelta

from portal.cluster.selectors.overview import overview_all
from portal.hardware.models import GpuCount, Sku

STEP = timedelta(minutes=5)
KEPT = timedelta(days=35)


def gpus_count(*, now: datetime) -> int:
    """Record the state of all GPUs once per step; delete old rows. Returns the number of new rows."""
    at = now - timedelta(seconds=now.timestamp() % STEP.total_seconds())
    at = at.replace(microsecond=0)
    if GpuCount.objects.filter(at=at).exists():
        return 0
    skus = {sku.name: sku.pk for sku in Sku.objects.all()}
    sums = overview_all().sums
    rows = [
        GpuCount(at=at, sku_id=skus[name], **{str(place): count for place, count in places.items()})
        for name, places in sums.items()
    ]
    GpuCount.objects.bulk_create(rows, ignore_conflicts=True)
    GpuCount.objects.filter(at__lt=now - KEPT).delete()
    return len(rows)
