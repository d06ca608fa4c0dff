"""People, and the tokens their programs use. Groups are Django's own."""

from __future__ import annotations

import hashlib

from django.contrib.auth.models import AbstractUser
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models


class ClusterRole(models.TextChoices):
    """What a user may do in the whole cluster; rights inside a virtual cluster stand in its memberships."""

    USER = "user", "User"
    AUDITOR = "auditor", "Auditor"
    ADMIN = "admin", "Administrator"


class User(AbstractUser):
    """An account. ``uid`` and ``gid`` are those its containers run with on the storages; never 0."""

    username = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(r"^[A-Za-z0-9_.-]+\Z", "Letters, digits, dot, dash and underscore only.")],
    )
    role = models.CharField(max_length=10, choices=ClusterRole.choices, default=ClusterRole.USER)
    uid = models.PositiveIntegerField(null=True, blank=True, unique=True, validators=[MinValueValidator(1)])
    gid = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    extra_gids = models.JSONField(default=list, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(uid=0) & ~models.Q(gid=0), name="user_never_root"),
        ]

    @property
    def is_cluster_admin(self) -> bool:
        """Whether the user administers the whole cluster."""
        return self.is_active and self.role == ClusterRole.ADMIN


class Scope(models.TextChoices):
    """What a token may be used for; each contains the one before."""

    READ = "read", "Read"
    SUBMIT = "submit", "Submit and stop jobs"
    ADMIN = "admin", "Everything its owner may do"


class Token(models.Model):
    """A bearer token. Only its hash is kept; ``prefix`` lets its owner recognise it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.SUBMIT)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"

    @staticmethod
    def digest_of(secret: str) -> str:
        """What is kept of a token: SHA-256 in hex. The secret has 256 random bits, so that no salt is needed."""
        return hashlib.sha256(secret.encode()).hexdigest()
