"""Abstract models that several apps share."""

from __future__ import annotations

from django.db import models

from nodes.protocol.wording import told


class EventRow(models.Model):
    """An event: who, what, when. ``data`` holds the sentence that tells it (``nodes/protocol/wording.py``), worded when
    it is read. Written in the same transaction as the change."""

    at = models.DateTimeField(db_index=True)
    code = models.CharField(max_length=40)
    data = models.JSONField(default=dict)
    actor = models.CharField(max_length=150, blank=True, help_text="user name, or empty for Berth itself")

    class Meta:
        abstract = True
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.code}: {self.message}"

    @property
    def message(self) -> str:
        """What happened, as a declared sentence."""
        return told(self.data)
