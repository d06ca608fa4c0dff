"""What OpenPAI keeps of users and groups and Berth has no word for."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models


class UserNote(models.Model):
    """OpenPAI's ``extension`` of a user: what clients keep there."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="pai_note")
    extension = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return str(self.user_id)


class GroupNote(models.Model):
    """What OpenPAI says of a group besides its description. ``extension`` is without the ``acls``, which follow
    from memberships."""

    group = models.OneToOneField(Group, on_delete=models.CASCADE, related_name="pai_note")
    external_name = models.CharField(max_length=255, blank=True)
    extension = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return str(self.group_id)
