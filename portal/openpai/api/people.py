"""OpenPAI's REST API: users and groups."""

from __future__ import annotations

import json
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.common.serializers import Body, Text, Truth
from portal.openpai.api.base import PaiView
from portal.openpai.errors import NOT_ADMIN, forbidden, invalid
from portal.openpai.selectors.people import (
    GroupSeen,
    UserSeen,
    group_found,
    groups_found,
    may_read_all,
    members_found,
    user_found,
    users_found,
)
from portal.openpai.services.groups import pai_group_change, pai_group_create, pai_group_remove
from portal.openpai.services.people import (
    person_change,
    person_change_own,
    person_create,
    person_join,
    person_leave,
    person_remove,
    person_set_groups,
)

NAMES = 1000


def _names(**more: Any) -> Any:
    return serializers.ListField(child=Text(max_length=150), max_length=NAMES, **more)


class Extension(serializers.DictField):
    """Free words of clients, as JSON that a database takes; the whole body is limited."""

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        try:
            text = json.dumps(value, ensure_ascii=False)
            text.encode()
        except UnicodeEncodeError:
            raise serializers.ValidationError("It holds half of a character.") from None
        if r"\u0000" in text:
            raise serializers.ValidationError("It holds a null character.")
        return value


class UserBody(Body):
    username = serializers.RegexField(r"^[\w.-]+\Z", max_length=64)
    password = Text(max_length=1000, trim_whitespace=False, required=False)
    email = Text(max_length=254, allow_blank=True, required=False)
    admin = Truth(required=False)
    virtualCluster = _names(required=False)
    extension = Extension(required=False)


class NewUserBody(UserBody):
    password = Text(max_length=1000, trim_whitespace=False)


class OwnBody(Body):
    username = Text(max_length=64)
    email = Text(max_length=254, allow_blank=True, required=False)
    oldPassword = Text(max_length=1000, trim_whitespace=False, required=False)
    newPassword = Text(max_length=1000, trim_whitespace=False, required=False)
    extension = Extension(required=False)


class GroupBody(Body):
    groupname = serializers.RegexField(r"^[A-Za-z0-9_.-]+\Z", max_length=150)
    description = Text(max_length=1000, allow_blank=True, required=False)
    externalName = Text(max_length=255, allow_blank=True, required=False)
    extension = Extension(required=False)


class UserChange(Body):
    data = UserBody()  # type: ignore[assignment]  # a field, which DRF takes out of the class
    patch = Truth(default=False)


class OwnChange(Body):
    data = OwnBody()  # type: ignore[assignment]  # a field, which DRF takes out of the class
    patch = Truth(default=False)


class GroupChange(Body):
    data = GroupBody()  # type: ignore[assignment]  # a field, which DRF takes out of the class
    patch = Truth(default=False)


class GroupNameBody(Body):
    groupname = Text(max_length=150)


class GroupListBody(Body):
    grouplist = _names()


def _whole(body: dict[str, Any], *needed: str) -> dict[str, Any]:
    """What is to be changed; all of it must be there where it is no patch."""
    missing = [] if body["patch"] else [name for name in needed if name not in body["data"]]
    if missing:
        raise invalid(f"data.{missing[0]}: needed where patch is false.")
    data: dict[str, Any] = body["data"]
    return data


class UsersView(PaiView):
    """All users."""

    def get(self, request: Request) -> Response:
        if not may_read_all(self.user):
            raise forbidden(NOT_ADMIN)
        return Response([_user(one) for one in users_found()])

    def post(self, request: Request) -> Response:
        self.admin_only()
        person_create(body=self.body(NewUserBody), actor=self.user, now=timezone.now())
        return Response({"message": "User is created successfully"}, status=201)

    def put(self, request: Request) -> Response:
        self.admin_only()
        data = _whole(self.body(UserChange), "email", "virtualCluster", "admin", "password", "extension")
        person_change(body=data, actor=self.user, now=timezone.now())
        return Response({"message": f"update user {data['username']} successfully."}, status=201)


class OwnView(PaiView):
    """One's own account."""

    def put(self, request: Request) -> Response:
        data = _whole(self.body(OwnChange), "email", "newPassword")
        person_change_own(user=self.user, body=data, now=timezone.now())
        return Response({"message": f"update user {data['username']} successfully."}, status=201)


class UserView(PaiView):
    """One user."""

    def get(self, request: Request, user: str) -> Response:
        return Response(_user(user_found(name=user, asker=self.user)))

    def delete(self, request: Request, user: str) -> Response:
        self.admin_only()
        person_remove(name=user, actor=self.user, now=timezone.now())
        return Response({"message": "user is removed successfully"})


class UserGroupView(PaiView):
    """A user's place in a group."""

    def put(self, request: Request, user: str) -> Response:
        self.admin_only()
        group = self.body(GroupNameBody)["groupname"]
        person_join(name=user, group=group, actor=self.user, now=timezone.now())
        return Response({"message": f"User {user} is added into group {group}"}, status=201)

    def delete(self, request: Request, user: str) -> Response:
        self.admin_only()
        group = self.body(GroupNameBody)["groupname"]
        person_leave(name=user, group=group, actor=self.user, now=timezone.now())
        return Response({"message": f"User {user} is removed from group {group}"}, status=201)


class UserGroupListView(PaiView):
    """All groups of a user."""

    def put(self, request: Request, user: str) -> Response:
        self.admin_only()
        groups = self.body(GroupListBody)["grouplist"]
        person_set_groups(name=user, groups=groups, actor=self.user, now=timezone.now())
        return Response({"message": "update user grouplist successfully."}, status=201)


class GroupsView(PaiView):
    """All groups."""

    def get(self, request: Request) -> Response:
        return Response([_group(one) for one in groups_found()])

    def post(self, request: Request) -> Response:
        self.admin_only()
        pai_group_create(body=self.body(GroupBody), actor=self.user, now=timezone.now())
        return Response({"message": "group is created successfully"}, status=201)

    def put(self, request: Request) -> Response:
        self.admin_only()
        data = _whole(self.body(GroupChange), "description", "externalName", "extension")
        pai_group_change(body=data, actor=self.user, now=timezone.now())
        return Response({"message": f"update group {data['groupname']} successfully."}, status=201)


class GroupView(PaiView):
    """One group."""

    def get(self, request: Request, group: str) -> Response:
        return Response(_group(group_found(name=group)))

    def delete(self, request: Request, group: str) -> Response:
        self.admin_only()
        pai_group_remove(name=group, actor=self.user, now=timezone.now())
        return Response({"message": "group is removed successfully"}, status=201)


class GroupMembersView(PaiView):
    """Who is in a group."""

    def get(self, request: Request, group: str) -> Response:
        if not may_read_all(self.user):
            raise forbidden(NOT_ADMIN)
        members = members_found(name=group)
        return Response([{"username": one.username, "clusterAdmin": one.is_cluster_admin} for one in members])


def _user(seen: UserSeen) -> dict[str, Any]:
    return {
        "username": seen.user.username,
        "grouplist": seen.groups,
        "admin": seen.user.is_cluster_admin,
        "virtualCluster": seen.vcs,
        "storageConfig": seen.storages,
        "email": seen.user.email,
        "extension": seen.extension,
    }


def _group(seen: GroupSeen) -> dict[str, Any]:
    acls = {"admin": False, "virtualClusters": seen.vcs, "storageConfigs": seen.storages}
    return {
        "groupname": seen.name,
        "description": seen.description,
        "externalName": seen.external_name,
        "extension": {**seen.extension, "acls": acls},
    }
