"""What the logs of virtual clusters take."""

from __future__ import annotations

from django.db import models

from portal.teams.models.teams import VirtualCluster


class KeptLogs(models.Model):
    """What a virtual cluster's logs take, in bytes as they were written: of jobs that are over, which its quota holds
    to, and of those that are not. A worker counts all of it anew every few minutes: to add it up takes seconds, and
    pages and alerts ask often."""

    vc = models.OneToOneField(VirtualCluster, on_delete=models.CASCADE, related_name="kept_logs")
    over = models.BigIntegerField(help_text="of jobs that are over")
    live = models.BigIntegerField(help_text="of all others")
    counted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.vc_id}: {self.over} bytes and {self.live} of live jobs"
