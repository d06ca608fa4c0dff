"""REST: accounts."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import ClusterRole, User
from portal.accounts.people import groups_named, user_change, user_remove, user_told
from portal.accounts.rest import IF_MATCH, ApiView, versioned
from portal.accounts.rights import Action
from portal.accounts.services import user_set_password
from portal.common.checking import checked
from portal.common.pagination import ByUser
from portal.common.serializers import Answer, Body, Text, Truth
from portal.common.shapes import Shape
from portal.hardware.states import VcRole
from portal.people.bodies import UserBody, ids, names, whole_id
from portal.people.filters import UserFilter
from portal.people.selectors.people import manage_right, people_described, user_get, user_restrict, user_to_manage
from portal.people.services.people import account_create
from portal.teams.selectors.visible import vcs_named


class UserChangeBody(Body):
    """What shall be different; what is not named stays."""

    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    role = serializers.ChoiceField(ClusterRole.choices, required=False)
    active = Truth(required=False, help_text="false: signed out everywhere within seconds, jobs go on")
    uid = whole_id("see making an account", required=False)
    gid = whole_id("see making an account", required=False)
    extra_gids = ids(required=False)
    groups = names(required=False, help_text="these, and no others")


class PasswordBody(Body):
    password = Text(max_length=1000, trim_whitespace=False, write_only=True)


class InVcAnswer(Shape):
    """A role in a virtual cluster."""

    name = serializers.CharField()
    role = serializers.ChoiceField(VcRole.choices)


class UserAnswer(Answer):
    username = serializers.CharField(source="user.username")
    email = serializers.CharField(source="user.email", allow_blank=True)
    role = serializers.ChoiceField(ClusterRole.choices, source="user.role")
    active = serializers.BooleanField(source="user.is_active", help_text="false: may neither sign in nor use a token")
    uid = serializers.IntegerField(source="user.uid", allow_null=True)
    gid = serializers.IntegerField(source="user.gid", allow_null=True)
    extra_gids = serializers.ListField(source="user.extra_gids", child=serializers.IntegerField())
    groups = serializers.ListField(child=serializers.CharField())
    virtual_clusters = InVcAnswer(many=True, help_text="with those that groups give")
    joined_at = serializers.DateTimeField(source="user.date_joined")


class UsersView(ApiView):
    """The accounts."""

    pagination_class = ByUser
    filterset_class = UserFilter
    orders = ("role", "date_joined")
    problems = (409,)

    @extend_schema(operation_id="user_list", responses=UserAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Accounts by name, disabled ones too. Administrators and auditors see all, leads the people of their virtual
        clusters, everybody oneself."""
        return self.page(user_restrict(user=self.user), UserAnswer, lambda users: people_described(users=users))

    @extend_schema(operation_id="user_create", request=UserBody, responses={201: UserAnswer})
    def post(self, request: Request) -> Response:
        """A new account; 409 when the name or the uid is taken. For administrators."""
        manage_right(user=self.user, action=Action.USER_MANAGE)
        body = self.body(UserBody)
        groups, vcs = groups_named(body.pop("groups")), vcs_named(body.pop("virtual_clusters"))
        with checked("password"):
            user = account_create(**body, groups=groups, vcs=vcs, **self.by)
        return answer_of(user, status=201)


class UserView(ApiView):
    """One account."""

    problems = (409,)

    @extend_schema(operation_id="user", responses=UserAnswer)
    def get(self, request: Request, username: str) -> Response:
        """The account, its groups and virtual clusters, with an ETag."""
        return answer_of(user_get(user=self.user, name=username))

    @extend_schema(operation_id="user_change", request=UserChangeBody, parameters=[IF_MATCH], responses=UserAnswer)
    def patch(self, request: Request, username: str) -> Response:
        """Changes what is named. With `active: false` the account's tokens and open pages end within seconds, and its
        jobs go on. 409 for the last administrator, or a uid that another has. For administrators."""
        user = user_to_manage(user=self.user, name=username)
        changes = self.changes(UserChangeBody)
        named = changes.pop("groups", None)
        groups = None if named is None else groups_named(named)
        with checked():
            changed = user_change(user=user, changes=changes, groups=groups, seen=self.seen(), **self.by)
        return answer_of(changed)

    @extend_schema(operation_id="user_remove", responses={204: None})
    def delete(self, request: Request, username: str) -> Response:
        """Removes an account that has no jobs, with its tokens, memberships and stored secrets. 409 where it has some:
        disable it instead, its record stays. For administrators."""
        user = user_to_manage(user=self.user, name=username)
        user_remove(user=user, **self.by)
        return Response(status=204)


class UserPasswordView(ApiView):
    """An account's password."""

    @extend_schema(operation_id="user_set_password", request=PasswordBody, responses={204: None})
    def put(self, request: Request, username: str) -> Response:
        """Gives an account a new password, which ends its browser sessions; its tokens hold on. For administrators."""
        user = user_to_manage(user=self.user, name=username)
        with checked("password"):
            user_set_password(user=user, password=self.body(PasswordBody)["password"], actor=self.user.username)
        return Response(status=204)


def answer_of(user: User, status: int = 200) -> Response:
    """The account with its ETag."""
    (described,) = people_described(users=[user])
    return versioned(UserAnswer(described), user_told(user), status)
