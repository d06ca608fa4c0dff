"""How pages tell of jobs."""

from __future__ import annotations

from django import template

from portal.jobs.event_words import event_words
from portal.jobs.problem_words import problem_words
from portal.jobs.waiting import why_waits

register = template.Library()
register.filter("why_waits", why_waits)
register.filter("event_words", event_words)
register.filter("problem_words", problem_words)
