"""What may be uploaded, and what somebody has."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from portal.accounts.models import User
from portal.code.models import CodeFolder, CodeUpload


def code_limits() -> dict[str, int]:
    """The most that an archive may take: its bytes, those of its files, and how many they are."""
    return {
        "size": settings.CODE_MAX_BYTES,
        "unpacked": settings.CODE_UNPACKED_MAX_BYTES,
        "entries": settings.CODE_MAX_ENTRIES,
    }


def code_uploaded(*, user: User) -> QuerySet[CodeFolder]:
    """What the user uploaded, newest first."""
    return CodeFolder.objects.filter(Exists(CodeUpload.objects.filter(code=OuterRef("pk"), user=user)))
