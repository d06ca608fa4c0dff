"""REST: what is wrong now."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.alerts.alert import SEVERITIES
from portal.alerts.models import KEY_LENGTH
from portal.alerts.seen import alerts_seen, silences_seen
from portal.alerts.silences import LONGEST, silence_end, silence_get, silence_right, silence_set
from portal.common.moments import Moment
from portal.common.serializers import Answer, Body, Text

KEY = "by which it is known from one look to the next, and silenced, such as `node_lost:node:gpu01`"
LEVELS = [(str(one), str(one)) for one in SEVERITIES]
REASON = "why, for whoever reads the alert"


class SilenceAnswer(Answer):
    id = serializers.IntegerField()
    key = serializers.CharField(help_text="of the alert")
    name = serializers.CharField(help_text="of what the alert is")
    severity = serializers.ChoiceField(
        LEVELS, help_text="of the alert when it was silenced: while it is worse, it is told all the same"
    )
    reason = serializers.CharField()
    author = serializers.CharField()
    created_at = serializers.DateTimeField()
    until = serializers.DateTimeField(help_text="when it ends by itself")


class AlertAnswer(Answer):
    key = serializers.CharField(help_text=KEY)
    code = serializers.CharField(help_text="for programs, such as `node_lost`")
    severity = serializers.ChoiceField(LEVELS)
    kind = serializers.CharField(help_text="of what: `node`, `gpu`, `storage`, `vc`, `job`, `portal`, `cluster`")
    name = serializers.CharField(help_text="of which")
    message = serializers.CharField(help_text="what is wrong")
    advice = serializers.CharField(help_text="what to do")
    since = serializers.DateTimeField(
        allow_null=True, help_text="where nothing tells, when it was found first; null: not known"
    )
    virtual_clusters = serializers.ListField(
        source="vcs", child=serializers.CharField(), help_text="that it concerns; their leads read it too"
    )
    silence = SilenceAnswer(allow_null=True, help_text="null: it is told")


class SilenceBody(Body):
    key = Text(max_length=KEY_LENGTH, help_text=f"of an alert that there is: {KEY}")
    reason = Text(max_length=500, help_text=REASON)
    until = Moment(help_text=f"when it ends by itself, within {LONGEST.days} days")


class AlertsView(ApiView):
    """What is wrong now."""

    pagination_class = None

    @extend_schema(operation_id="alert_list", responses=AlertAnswer(many=True))
    def get(self, request: Request) -> Response:
        """The worst first, those that are silenced last, each with what to do. Worked out when it is asked for: what is
        over is not there any more.
        Administrators and auditors see all, leads what concerns their virtual clusters, others nothing."""
        return self.listed(alerts_seen(user=self.user, now=timezone.now()), AlertAnswer)


class AlertSilencesView(ApiView):
    """Alerts of which nobody is told for a while."""

    pagination_class = None

    @extend_schema(operation_id="alert_silence_list", responses=SilenceAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Those that are not over, the first to end first. Administrators and auditors see all, leads those of alerts
        that they read."""
        return self.listed(silences_seen(user=self.user, now=timezone.now()), SilenceAnswer)

    @extend_schema(operation_id="alert_silence_set", request=SilenceBody, responses={201: SilenceAnswer})
    def post(self, request: Request) -> Response:
        """Silences an alert, in place of an earlier silence of it: until its end neither mail nor webhook tells of it,
        and lists show it as silenced. What is still wrong then is told anew, and at once what gets worse than it is
        now. For administrators."""
        silence_right(user=self.user)
        made = silence_set(**self.body(SilenceBody), **self.by)
        return Response(SilenceAnswer(made).data, status=201)


class AlertSilenceView(ApiView):
    """One of them."""

    @extend_schema(operation_id="alert_silence_end", responses={204: None})
    def delete(self, request: Request, silence_id: int) -> Response:
        """Ends it early. For administrators."""
        now = timezone.now()
        row = silence_get(user=self.user, silence_id=silence_id, now=now)
        silence_end(silence=row, actor=self.user.username, now=now)
        return Response(status=204)
