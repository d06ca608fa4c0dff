"""Per-user rate limits for submissions, uploads and log searches, shared by all entry points."""

from __future__ import annotations

from django.conf import settings

from portal.common.throttles import Rate, RateLimit

SUBMITS = RateLimit("submit", Rate(*settings.SUBMIT_RATE))
UPLOADS = RateLimit("code", Rate(*settings.CODE_RATE))
SEARCHES = RateLimit("log_search", Rate(*settings.LOG_SEARCH_RATE))
