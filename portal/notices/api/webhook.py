"""REST: the administrator's webhook, and the log of what was sent to it."""

from __future__ import annotations

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.filters import ChoicesFilter, GivenFilter, MomentFilter
from portal.common.serializers import Answer, Body, Text
from portal.notices.models import Delivery
from portal.notices.selectors import deliveries, webhook_get, webhook_right
from portal.notices.services.webhook import webhook_delete, webhook_set, webhook_test
from portal.notices.states import DELIVERED, SendingState, Told

SECRET = "`whsec_` and 24 to 64 random bytes in base64; it is never shown. Left out: the one that is stored stays"


class WebhookBody(Body):
    url = Text(max_length=2000, help_text="`https://…`; `http` only to networks of `BERTH_WEBHOOK_ALLOW`")
    kinds = serializers.ListField(
        child=serializers.ChoiceField(Told.choices), max_length=len(Told), help_text="what it is told of"
    )
    secret = Text(max_length=200, required=False, write_only=True, help_text=SECRET)


class WebhookAnswer(Answer):
    whole = True
    url = serializers.CharField()
    kinds = serializers.ListField(child=serializers.ChoiceField(Told.choices))
    changed_at = serializers.DateTimeField()
    left_out = serializers.IntegerField(help_text="deliveries not made of late, since too many wait")


class DeliveryAnswer(Answer):
    id = serializers.IntegerField()
    message_id = serializers.CharField(help_text="the header `webhook-id`, the same with every attempt")
    kind = serializers.ChoiceField(DELIVERED)
    subject = serializers.CharField(allow_blank=True, help_text="the job, node or virtual cluster")
    state = serializers.ChoiceField(SendingState.choices)
    created_at = serializers.DateTimeField()
    attempts = serializers.IntegerField()
    next_try_at = serializers.DateTimeField(help_text="of one that waits")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="sent, or given up")
    status = serializers.IntegerField(allow_null=True, help_text="of the last answer; null: there was none")
    error = serializers.CharField(allow_blank=True, help_text="of the last attempt")


class DeliveryFilter(GivenFilter):
    """Filters of the log of deliveries."""

    of = Delivery

    state = ChoicesFilter(choices=SendingState.choices, help_text="one or several")
    kind = ChoicesFilter(choices=DELIVERED, help_text="one or several")
    subject = django_filters.CharFilter(help_text="exactly, such as `alice/train#7`")
    since = MomentFilter(field_name="created_at", lookup_expr="gte", help_text="made then or later")
    until = MomentFilter(field_name="created_at", lookup_expr="lt", help_text="made before")


class WebhookView(ApiView):
    """The one address that is told of what happens. For administrators; auditors may read it."""

    @extend_schema(operation_id="webhook", responses=WebhookAnswer)
    def get(self, request: Request) -> Response:
        """Where it is and what it is told of."""
        return Response(WebhookAnswer(webhook_get(user=self.user)).data)

    @extend_schema(operation_id="webhook_set", request=WebhookBody, responses={200: WebhookAnswer, 201: WebhookAnswer})
    def put(self, request: Request) -> Response:
        """Sets it, in place of an earlier one; what waits is sent to the new address at once."""
        webhook_right(user=self.user, action=Action.WEBHOOK_SET)
        data = self.body(WebhookBody)
        hook, new = webhook_set(url=data["url"], kinds=data["kinds"], secret=data.get("secret"), **self.by)
        return Response(WebhookAnswer(hook).data, status=201 if new else 200)

    @extend_schema(operation_id="webhook_delete", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Removes it; what waits is given up."""
        webhook_right(user=self.user, action=Action.WEBHOOK_SET)
        webhook_delete(**self.by)
        return Response(status=204)


class TestView(ApiView):
    """Whether it arrives."""

    @extend_schema(operation_id="webhook_test", request=None, responses={202: DeliveryAnswer})
    def post(self, request: Request) -> Response:
        """Sends a `ping` within seconds; the log of deliveries says what became of it."""
        webhook_right(user=self.user, action=Action.WEBHOOK_SET)
        made = webhook_test(**self.by)
        return Response(DeliveryAnswer(made).data, status=202)


class DeliveriesView(ApiView):
    """What was sent to the webhook, and what will be."""

    filterset_class = DeliveryFilter
    orders = ("created_at",)

    @extend_schema(operation_id="webhook_delivery_list", responses=DeliveryAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Newest first; those that ended stay for a month (`BERTH_NOTICE_DAYS`)."""
        return self.page(deliveries(user=self.user), DeliveryAnswer)
