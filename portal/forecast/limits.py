"""Rate limit of what-if questions about a job: each answer costs a second of computing."""

from __future__ import annotations

from django.conf import settings

from portal.common.throttles import Rate, RateLimit

WHAT_IFS = RateLimit("what_if", Rate(*settings.ESTIMATE_RATE))
