"""Tags and saved views, by which people find jobs again."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from portal.jobs.models.job import Job

TAG_LENGTH = 255
VIEW_NAME_LENGTH = 60


class JobTag(models.Model):
    """A tag that somebody gave a job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=TAG_LENGTH)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="tag_of_job_once")]
        indexes = [models.Index(fields=["name", "job"], name="job_by_tag")]

    def __str__(self) -> str:
        return self.name


class SavedView(models.Model):
    """A user's saved filters of the job list. ``query`` is the query string of the list's address."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views", db_index=False
    )
    name = models.CharField(max_length=VIEW_NAME_LENGTH)
    query = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="view_of_user_once")]

    def __str__(self) -> str:
        return self.name
