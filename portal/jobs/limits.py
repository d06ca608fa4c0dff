"""How often somebody may submit, by whatever door."""

from __future__ import annotations

from django.conf import settings

from portal.common.throttles import Rate, RateLimit

SUBMITS = RateLimit("submit", Rate(*settings.SUBMIT_RATE))
