"""REST: what is wrong now."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.serializers import Answer
from portal.dispatch.alerts import SEVERITIES, alerts_seen


class AlertAnswer(Answer):
    code = serializers.CharField(help_text="for programs, such as `node_lost`")
    severity = serializers.ChoiceField([(str(one), str(one)) for one in SEVERITIES])
    kind = serializers.CharField(help_text="of what: `node`, `gpu`, `storage`, `vc`, `job`, `portal`, `cluster`")
    name = serializers.CharField(help_text="of which")
    message = serializers.CharField(help_text="what is wrong")
    advice = serializers.CharField(help_text="what to do")
    since = serializers.DateTimeField(allow_null=True, help_text="null: not known")
    virtual_clusters = serializers.ListField(
        source="vcs", child=serializers.CharField(), help_text="that it concerns; their leads read it too"
    )


class AlertsView(ApiView):
    """What is wrong now."""

    pagination_class = None

    @extend_schema(
        operation_id="alert_list",
        responses=AlertAnswer(many=True),
    )
    def get(self, request: Request) -> Response:
        """The worst first, each with what to do. Worked out when it is asked for: what is over is not there any more.
        Administrators and auditors see all, leads what concerns their virtual clusters, others nothing."""
        return self.listed(alerts_seen(user=self.user, now=timezone.now()), AlertAnswer)
