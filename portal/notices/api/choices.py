"""REST: what one is told of by e-mail."""

from __future__ import annotations

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.serializers import Answer, Body, Truth
from portal.notices.models import NoticeChoice
from portal.notices.selectors import notice_choice
from portal.notices.services.choices import notice_choice_set
from portal.notices.states import JobNotice

KINDS = "changes of one's jobs; what a job's own file names under `notify` is added for that job"


ALERTS = "whether alerts are told when they begin and when they are over; holds while one is an administrator"


class ChoiceBody(Body):
    kinds = serializers.ListField(
        child=serializers.ChoiceField(JobNotice.choices), max_length=len(JobNotice), help_text=KINDS
    )
    alerts = Truth(required=False, help_text=f"{ALERTS}; left out: as it was")


class ChoiceAnswer(Answer):
    whole = True
    kinds = serializers.ListField(child=serializers.ChoiceField(JobNotice.choices), help_text=KINDS)
    alerts = serializers.BooleanField(help_text=ALERTS)
    email = serializers.CharField(allow_blank=True, help_text="where to; empty: nothing is sent")
    sending = serializers.BooleanField(help_text="whether this portal sends e-mail at all")


class ChoiceView(ApiView):
    """What one is told of by e-mail."""

    @extend_schema(operation_id="notice_choice", responses=ChoiceAnswer)
    def get(self, request: Request) -> Response:
        """Of which changes of one's jobs, of none unless one has chosen some; administrators also of alerts, unless
        they have chosen otherwise."""
        return self._answer(notice_choice(user=self.user))

    @extend_schema(operation_id="notice_choice_set", request=ChoiceBody, responses=ChoiceAnswer)
    def put(self, request: Request) -> Response:
        """Chooses anew: of these, from now on, of waiting and running jobs as well."""
        data = self.body(ChoiceBody)
        return self._answer(
            notice_choice_set(user=self.user, kinds=data["kinds"], alerts=data.get("alerts"), now=timezone.now())
        )

    def _answer(self, choice: NoticeChoice) -> Response:
        shown = {"kinds": choice.kinds, "alerts": choice.alerts, "email": self.user.email, "sending": settings.EMAIL_ON}
        return Response(ChoiceAnswer(shown).data)
