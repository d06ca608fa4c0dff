"""Log sizes of virtual clusters."""

from __future__ import annotations

from django.db import models

from portal.teams.models.teams import VirtualCluster


class KeptLogs(models.Model):
    """Size of a virtual cluster's logs, in bytes as they were written: of jobs that are over, to which its quota
    applies, and of all others. A worker recounts everything every few minutes: summing takes seconds, and pages and
    alerts ask often."""

    vc = models.OneToOneField(VirtualCluster, on_delete=models.CASCADE, related_name="kept_logs")
    over = models.BigIntegerField(help_text="of jobs that are over")
    live = models.BigIntegerField(help_text="of all others")
    counted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.vc_id}: {self.over} bytes and {self.live} of live jobs"
