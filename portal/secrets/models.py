"""Secrets that people and teams store, so that job files need not give them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.teams.models.teams import VirtualCluster


class SecretKind(models.TextChoices):
    """What is stored: something that job files refer to, or the log-in to an image registry."""

    SECRET = "secret", _("Secret")  # noqa: S105  # no password
    REGISTRY = "registry", _("Registry log-in")


class StoredSecret(models.Model):
    """A secret of one user or of one virtual cluster. ``name`` is what `$secrets.` is followed by, or the registry's
    server; ``sealed`` the value, which nothing ever shows again."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="stored_secrets"
    )
    vc = models.ForeignKey(VirtualCluster, null=True, on_delete=models.CASCADE, related_name="stored_secrets")
    kind = models.CharField(max_length=8, choices=SecretKind.choices)
    name = models.CharField(max_length=260)
    username = models.CharField(max_length=255, blank=True, help_text="of a registry log-in")
    sealed = models.TextField()
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True, vc__isnull=False) | Q(user__isnull=False, vc__isnull=True),
                name="stored_secret_one_owner",
            ),
            models.UniqueConstraint(
                fields=["user", "kind", "name"], condition=Q(user__isnull=False), name="stored_secret_of_user"
            ),
            models.UniqueConstraint(
                fields=["vc", "kind", "name"], condition=Q(vc__isnull=False), name="stored_secret_of_vc"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
