"""How often somebody may submit and upload, by whatever door."""

from __future__ import annotations

from django.conf import settings

from portal.common.throttles import Rate, RateLimit

SUBMITS = RateLimit("submit", Rate(*settings.SUBMIT_RATE))
UPLOADS = RateLimit("code", Rate(*settings.CODE_RATE))
