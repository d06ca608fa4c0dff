"""What an administrator does with other people's accounts."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import ProtectedError

from portal.accounts.models import ClusterRole, Token, User


def user_change(*, user: User, email: str | None = None, role: ClusterRole | None = None) -> None:
    """Another address or another role in the cluster; None: as it is. Raises django's ValidationError."""
    if email is not None:
        user.email = email
    if role is not None:
        user.role, user.is_staff, user.is_superuser = role, role == ClusterRole.ADMIN, role == ClusterRole.ADMIN
    user.full_clean()
    user.save(update_fields=["email", "role", "is_staff", "is_superuser"])


def user_remove(*, user: User, now: datetime) -> None:
    """Ends an account and its tokens. Its row stays, disabled, where jobs name it as their owner."""
    with transaction.atomic():
        Token.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
        try:
            user.delete()
        except ProtectedError:
            User.objects.filter(pk=user.pk).update(is_active=False)
