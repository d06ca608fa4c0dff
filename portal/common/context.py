"""Template context available on every page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def site(request: HttpRequest) -> dict[str, object]:
    """Cluster name, version, URL of static files, and the languages under their own names."""
    return {
        "cluster_name": settings.CLUSTER_NAME,
        "version": settings.VERSION,
        "static_url": settings.STATIC_URL,
        "languages": settings.LANGUAGES,
    }
