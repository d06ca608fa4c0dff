"""What an administrator does with other people's accounts."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import ProtectedError

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, ClusterRole, Token, User


def user_change(
    *, user: User, now: datetime, actor: str, email: str | None = None, role: ClusterRole | None = None
) -> None:
    """Another address or another role in the cluster; None: as it is. Raises django's ValidationError."""
    before = {"email": user.email, "role": str(user.role)}
    if email is not None:
        user.email = email
    if role is not None:
        user.role, user.is_staff, user.is_superuser = role, role == ClusterRole.ADMIN, role == ClusterRole.ADMIN
    user.full_clean()
    was, became = changes_of(before, {"email": user.email, "role": str(user.role)})
    if became:
        with transaction.atomic():
            user.save(update_fields=["email", "role", "is_staff", "is_superuser"])
            audit_write(
                Audited.USER_CHANGE, actor=actor, target=user.username, now=now, before=was, after=became
            )  # fmt: skip


def user_remove(*, user: User, now: datetime, actor: str) -> None:
    """Ends an account and its tokens. Its row stays, disabled, where jobs name it as their owner."""
    name, role = user.username, str(user.role)
    with transaction.atomic():
        Token.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
        try:
            user.delete()
        except ProtectedError:
            User.objects.filter(pk=user.pk).update(is_active=False)
        audit_write(Audited.USER_REMOVE, actor=actor, target=name, now=now, before={"role": role})


def groups_set(*, user: User, groups: list[Group], now: datetime, actor: str) -> None:
    """Let the account be in these groups and in no others."""
    with transaction.atomic():
        before = sorted(group.name for group in user.groups.all())
        user.groups.set(groups)
        after = sorted(group.name for group in groups)
        if before != after:
            audit_write(
                Audited.GROUP, actor=actor, target=user.username, now=now, before={"groups": before},
                after={"groups": after},
            )  # fmt: skip
