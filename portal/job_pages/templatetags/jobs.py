"""Template tags and filters for jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString

from portal.common.templatetags.frontend import lasted, span_words
from portal.hardware.health_words import health_words
from portal.jobs.problem_words import problem_words
from portal.queue.wait_translations import why_waits

register = template.Library()


@register.simple_tag
def ran(job: Any) -> SafeString | str:
    """How long a listed job has run, without waits between its attempts: ticks while it runs, and is empty while it
    waits."""
    before = job.ran or timedelta()
    if job.running_since is not None:
        return lasted(job.running_since - before, None)
    return span_words(before) if job.ended_at and job.started_at else "–"


@register.filter
def ahead(at: datetime | None) -> bool:
    """Whether this time is in the future."""
    return at is not None and at > timezone.now()


register.filter("why_waits", why_waits)
register.filter("health_words", health_words)
register.filter("problem_words", problem_words)
