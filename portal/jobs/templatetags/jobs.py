"""How pages tell of jobs."""

from __future__ import annotations

from django import template

from portal.jobs.waiting import why_waits

register = template.Library()
register.filter("why_waits", why_waits)
