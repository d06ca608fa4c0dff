"""Abstract rows that several apps share; no table of its own."""

from __future__ import annotations

from django.db import models


class EventRow(models.Model):
    """Something that happened: who, what, when, in words and as data. Written in the transaction of the change."""

    at = models.DateTimeField(db_index=True)
    code = models.CharField(max_length=40)
    message = models.TextField()
    data = models.JSONField(default=dict, blank=True)
    actor = models.CharField(max_length=150, blank=True, help_text="user name, or empty for Berth itself")

    class Meta:
        abstract = True
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.code}: {self.message}"
