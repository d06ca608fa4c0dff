"""REST: which images jobs may run."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.filters import GivenFilter, NamedFilter
from portal.common.pagination import OldestFirst
from portal.common.rows import RowAnswer, RowBody
from portal.common.serializers import Text
from portal.images.models import ImageRule
from portal.images.selectors import image_right, image_rule_to_remove, image_rules
from portal.images.services import image_rule_add, image_rule_remove
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vcs_named


class ImageRuleBody(RowBody):
    vc = Text(max_length=64, allow_null=True, default=None, help_text="null: all virtual clusters without own patterns")

    class Meta:
        model = ImageRule
        fields = ("pattern", "vc", "profile", "note")


class ImageRuleAnswer(RowAnswer):
    vc = serializers.CharField(source="vc.name", allow_null=True, default=None)

    class Meta:
        model = ImageRule
        fields = ("id", "pattern", "vc", "profile", "note", "created_at")


class ImageRuleFilter(GivenFilter):
    """Filters of the list of patterns."""

    of = ImageRule

    pattern = django_filters.CharFilter(lookup_expr="icontains", help_text="part of it")
    vc = NamedFilter(VirtualCluster, "name", help_text="own ones of this virtual cluster")


class ImagesView(ApiView):
    """The images that jobs may run."""

    pagination_class = OldestFirst
    filterset_class = ImageRuleFilter
    orders = ("pattern",)
    problems = (409,)

    @extend_schema(operation_id="image_list", responses=ImageRuleAnswer(many=True))
    def get(self, request: Request) -> Response:
        """The patterns of the whole cluster (`vc` null) and of one's virtual clusters. A virtual cluster with patterns
        of its own is judged by these alone, others by the cluster's; where neither has any, every image may run."""
        return self.page(image_rules(user=self.user).select_related("vc"), ImageRuleAnswer)

    @extend_schema(operation_id="image_allow", request=ImageRuleBody, responses={201: ImageRuleAnswer})
    def post(self, request: Request) -> Response:
        """Lets images of a pattern run; the first pattern of a list ends that every image may. An image runs as root
        where the virtual cluster and one of the patterns that mean it allow that. 409 when it is there. Job files are
        judged when they are submitted, and jobs again when they are about to start. For administrators."""
        image_right(user=self.user)
        body: dict[str, Any] = self.body(ImageRuleBody)
        name = body.pop("vc")
        vc = None if name is None else vcs_named([name], path="vc")[0]
        made = image_rule_add(vc=vc, **body, **self.by)
        return Response(ImageRuleAnswer(made).data, status=201)


class ImageView(ApiView):
    """One pattern."""

    @extend_schema(operation_id="image_disallow", responses={204: None})
    def delete(self, request: Request, rule_id: int) -> Response:
        """Takes the pattern off its list; what runs goes on. For administrators."""
        rule = image_rule_to_remove(user=self.user, rule_id=rule_id)
        image_rule_remove(rule=rule, **self.by)
        return Response(status=204)
