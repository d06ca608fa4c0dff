"""For Prometheus: the portal's figures."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from rest_framework.request import Request

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action, allowed_everywhere
from portal.alerts.gauges import gauges
from portal.common.errors import Denied


class PrometheusView(ApiView):
    """``GET /metrics``."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """What the whole portal shows, and what this process counts. For administrators and auditors: by a token of
        theirs."""
        if not allowed_everywhere(self.user, Action.ALERT_READ):
            raise Denied("Only administrators and auditors read the portal's figures.")
        return HttpResponse(gauges(now=timezone.now()) + generate_latest(), content_type=CONTENT_TYPE_LATEST)
