"""REST: groups of users."""

from __future__ import annotations

from typing import Any

import django_filters
from django.contrib.auth.models import Group
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.people import group_join, group_leave
from portal.accounts.rest import IF_MATCH, ApiView, versioned
from portal.accounts.rights import Action
from portal.common.filters import GivenFilter
from portal.common.names import NAME
from portal.common.pagination import ByGroup
from portal.common.serializers import Answer, Body, Text
from portal.hardware.states import VcRole
from portal.people.api.people import InVcAnswer
from portal.people.selectors.people import (
    group_get,
    group_members,
    group_restrict,
    group_to_manage,
    groups_described,
    manage_right,
    user_get,
)
from portal.people.services.people import group_change, group_create, group_remove, group_told

MOST_VCS = 200


class RoleBody(Body):
    name = Text(max_length=64, help_text="of a virtual cluster")
    role = serializers.ChoiceField(VcRole.choices, default=VcRole.MEMBER)


class GroupChangeBody(Body):
    """What shall be different; what is not named stays."""

    description = Text(max_length=1000, allow_blank=True, required=False)
    virtual_clusters = serializers.ListField(
        child=RoleBody(), max_length=MOST_VCS, required=False, help_text="these, and no others"
    )


class GroupBody(GroupChangeBody):
    name = Text(max_length=150, validators=[NAME], help_text="letters, digits, dot, dash and underscore")


class GroupAnswer(Answer):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    member_count = serializers.IntegerField()
    virtual_clusters = InVcAnswer(many=True, help_text="the roles that its members have by it")


class GroupDetailAnswer(GroupAnswer):
    whole = True
    members = serializers.ListField(child=serializers.CharField(), help_text="user names")


class GroupFilter(GivenFilter):
    """Filters of the list of groups."""

    of = Group

    name = django_filters.CharFilter(lookup_expr="icontains", help_text="part of its name")
    vc = django_filters.CharFilter(field_name="vc_memberships__vc__name", help_text="that give this virtual cluster")
    user = django_filters.CharFilter(field_name="user__username", help_text="in which this user is")


class GroupsView(ApiView):
    """The groups."""

    pagination_class = ByGroup
    filterset_class = GroupFilter
    problems = (409,)

    @extend_schema(operation_id="group_list", responses=GroupAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Groups by name. Administrators and auditors see all, leads those in their virtual clusters, everybody those
        that one is in."""
        rows = group_restrict(user=self.user).select_related("note")
        return self.page(rows, GroupAnswer, lambda groups: groups_described(groups=groups))

    @extend_schema(operation_id="group_create", request=GroupBody, responses={201: GroupDetailAnswer})
    def post(self, request: Request) -> Response:
        """A new group without members; 409 when a group or a virtual cluster has the name. For administrators."""
        manage_right(user=self.user, action=Action.GROUP_MANAGE)
        body = self.body(GroupBody)
        group = group_create(
            name=body["name"], description=body.get("description", ""), roles=_roles(body) or {}, **self.by
        )
        return _answer(group, status=201)


class GroupView(ApiView):
    """One group."""

    problems = (409,)

    @extend_schema(operation_id="group", responses=GroupDetailAnswer)
    def get(self, request: Request, group: str) -> Response:
        """The group, who is in it and what it gives, with an ETag of what can be changed here."""
        return _answer(group_get(user=self.user, name=group))

    @extend_schema(
        operation_id="group_change", request=GroupChangeBody, parameters=[IF_MATCH], responses=GroupDetailAnswer
    )
    def patch(self, request: Request, group: str) -> Response:
        """Changes what it is for, or the virtual clusters that it gives. For administrators."""
        row, body = group_to_manage(user=self.user, name=group), self.changes(GroupChangeBody)
        changed = group_change(
            group=row, description=body.get("description"), roles=_roles(body), seen=self.seen(), **self.by
        )
        return _answer(changed)

    @extend_schema(operation_id="group_remove", responses={204: None})
    def delete(self, request: Request, group: str) -> Response:
        """Ends the group; its members lose what it gave them, and what runs goes on. For administrators."""
        row = group_to_manage(user=self.user, name=group)
        group_remove(group=row, **self.by)
        return Response(status=204)


class GroupMemberView(ApiView):
    """A user's place in a group."""

    @extend_schema(operation_id="group_member_add", request=None, responses={204: None})
    def put(self, request: Request, group: str, username: str) -> Response:
        """Puts a user into the group; in it already: no change. For administrators."""
        row = group_to_manage(user=self.user, name=group)
        user = user_get(user=self.user, name=username)
        group_join(group=row, user=user, **self.by)
        return Response(status=204)

    @extend_schema(operation_id="group_member_remove", responses={204: None})
    def delete(self, request: Request, group: str, username: str) -> Response:
        """Takes a user out of the group; out of it already: no change. For administrators."""
        row = group_to_manage(user=self.user, name=group)
        user = user_get(user=self.user, name=username)
        group_leave(group=row, user=user, **self.by)
        return Response(status=204)


def _roles(body: dict[str, Any]) -> dict[str, str] | None:
    given = body.get("virtual_clusters")
    return None if given is None else {one["name"]: one["role"] for one in given}


def _answer(group: Group, status: int = 200) -> Response:
    (described,) = groups_described(groups=[group])
    answer = GroupDetailAnswer({**described, "members": group_members(group=group)})
    return versioned(answer, group_told(group), status)
