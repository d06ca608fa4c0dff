"""REST: virtual clusters and their rules."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.pagination import ByName
from portal.common.rows import RowBody
from portal.common.serializers import Body, Text, Whole
from portal.hardware.states import VcRole
from portal.teams.api.answers import (
    MemberAnswer,
    UserShareAnswer,
    VirtualClusterAnswer,
    VirtualClusterDetailAnswer,
    VirtualClusterFilter,
)
from portal.teams.models import RULES, VirtualCluster
from portal.teams.models.teams import MOST
from portal.teams.selectors.details import vc_detail, vc_members
from portal.teams.selectors.fairness import user_shares
from portal.teams.selectors.quotas import quota_book
from portal.teams.selectors.shares import vc_shares
from portal.teams.selectors.visible import jobs_seen, vc_get, vc_make_right, vc_restrict, vc_roles, vc_with_right
from portal.teams.services.rules import CAPS, Limit, firm_right_end, firm_right_set, vc_set_all_rules
from portal.teams.services.teams import membership_end, membership_set, vc_create, vc_remove


class LoanLimitBody(Body):
    sku = Text(max_length=64)
    max_borrow = Whole(min_value=0, max_value=MOST, allow_null=True, default=None)
    max_lend = Whole(min_value=0, max_value=MOST, allow_null=True, default=None)


class RulesBody(RowBody):
    """What shall be different; what is not named stays."""

    change = True
    loan_limits = serializers.ListField(child=LoanLimitBody(), required=False, max_length=100)

    class Meta:
        model = VirtualCluster
        fields = ("description", *RULES, "loan_limits")


class VirtualClusterBody(RowBody):
    class Meta:
        model = VirtualCluster
        fields = ("name", "description", "host_network")


class FirmRightBody(Body):
    gpus = Whole(min_value=1, max_value=MOST)
    last_day = serializers.DateField()


class MemberBody(Body):
    name = Text(max_length=150)
    kind = serializers.ChoiceField(["user", "group"], default="user")
    role = serializers.ChoiceField(VcRole.choices)


class VirtualClustersView(ApiView):
    """The virtual clusters."""

    pagination_class = ByName
    problems = (409,)
    filterset_class = VirtualClusterFilter
    orders = ("weight",)

    @extend_schema(operation_id="virtual_cluster_list", responses=VirtualClusterAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Each virtual cluster with its quota and what of it is in use, by SKU."""
        return self.page(vc_restrict(user=self.user), VirtualClusterAnswer, self._described)

    @extend_schema(
        operation_id="virtual_cluster_create",
        request=VirtualClusterBody,
        responses={201: VirtualClusterDetailAnswer},
    )
    def post(self, request: Request) -> Response:
        """A new virtual cluster, without quota or members; its jobs have one task each unless `host_network` is
        true. 409 when the name is taken. For administrators."""
        vc_make_right(user=self.user)
        body = self.body(VirtualClusterBody)
        vc = vc_create(**body, **self.by)
        return Response(VirtualClusterDetailAnswer(_whole(vc, None)).data, status=201)

    def _described(self, vcs: list[VirtualCluster]) -> list[dict[str, Any]]:
        shares, roles = vc_shares(vcs=vcs), vc_roles(user=self.user)
        return [_vc(vc, shares[vc.pk], roles.get(vc.pk)) for vc in vcs]


class VirtualClusterView(ApiView):
    """One virtual cluster."""

    problems = (409,)

    @extend_schema(operation_id="virtual_cluster", responses=VirtualClusterDetailAnswer)
    def get(self, request: Request, name: str) -> Response:
        """Its quota and what of it is in use, by SKU; its rules, and who may run jobs that are not preempted."""
        return self._answer(name)

    @extend_schema(operation_id="virtual_cluster_set_rules", request=RulesBody, responses=VirtualClusterDetailAnswer)
    def patch(self, request: Request, name: str) -> Response:
        """Changes its rules. What one user may hold and whether jobs borrow by default may be changed by its leads;
        everything else by administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_CAP)
        changes = self.changes(RulesBody)
        if changes.keys() - CAPS:
            vc_with_right(user=self.user, name=name, action=Action.VC_CONFIGURE)
        limits = changes.pop("loan_limits", None)
        wanted = None if limits is None else [Limit(**limit) for limit in limits]
        vc_set_all_rules(vc=vc, changes=changes, limits=wanted, **self.by)
        return self._answer(name)

    @extend_schema(operation_id="virtual_cluster_remove", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Removes it with its quota and members; 409 while jobs of it wait or run. Jobs that are over keep its name.
        For administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_MAKE)
        vc_remove(vc=vc, **self.by)
        return Response(status=204)

    def _answer(self, name: str) -> Response:
        vc = vc_get(user=self.user, name=name)
        described = _whole(vc, vc_roles(user=self.user).get(vc.pk))
        return Response(VirtualClusterDetailAnswer(described).data)


class MembersView(ApiView):
    """Who is in a virtual cluster."""

    pagination_class = None

    @extend_schema(operation_id="member_list", responses=MemberAnswer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """Its users and groups, leads first. For its leads and administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_MEMBERS)
        return self.listed(vc_members(vc=vc), MemberAnswer)

    @extend_schema(operation_id="member_set", request=MemberBody, responses=MemberAnswer(many=True))
    def post(self, request: Request, name: str) -> Response:
        """Gives a user or a group a role, in place of an earlier one. For its leads and administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_MEMBERS)
        body = self.body(MemberBody)
        membership_set(vc=vc, name=body["name"], group=body["kind"] == "group", role=body["role"], **self.by)
        return Response(MemberAnswer(vc_members(vc=vc), many=True).data)


class MemberView(ApiView):
    """Somebody in a virtual cluster."""

    @extend_schema(operation_id="member_remove", responses={204: None})
    def delete(self, request: Request, name: str, member_id: int) -> Response:
        """Takes somebody out; what runs goes on. For its leads and administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_MEMBERS)
        membership_end(vc=vc, membership_id=member_id, **self.by)
        return Response(status=204)


class SharesView(ApiView):
    """Fair share in a virtual cluster."""

    pagination_class = None

    @extend_schema(operation_id="user_share_list", responses=UserShareAnswer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """Each user's part of the quota of late, the smaller first, as equal jobs of theirs take turns. For those who
        may see the virtual cluster's jobs; others find nobody."""
        vc = vc_get(user=self.user, name=name)
        return self.listed(user_shares(vc=vc) if jobs_seen(user=self.user, vc=vc) else [], UserShareAnswer)


class FirmRightView(ApiView):
    """A user's right to jobs that are never preempted."""

    @extend_schema(operation_id="firm_right_set", request=FirmRightBody, responses=VirtualClusterDetailAnswer)
    def put(self, request: Request, name: str, user: str) -> Response:
        """Lets the user run jobs with `preemptible: false` in this virtual cluster: so many GPUs together, inside the
        quota, up to and including the last day. For administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_CONFIGURE)
        body = self.body(FirmRightBody)
        firm_right_set(vc=vc, username=user, **body, **self.by)
        return self._answer(vc)

    @extend_schema(operation_id="firm_right_end", responses=VirtualClusterDetailAnswer)
    def delete(self, request: Request, name: str, user: str) -> Response:
        """Takes the right back; the user's jobs can be preempted from now on. For administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.VC_CONFIGURE)
        firm_right_end(vc=vc, username=user, **self.by)
        return self._answer(vc)

    def _answer(self, vc: VirtualCluster) -> Response:
        described = _whole(vc, vc_roles(user=self.user).get(vc.pk))
        return Response(VirtualClusterDetailAnswer(described).data)


def _vc(vc: VirtualCluster, shares: object, role: str | None) -> dict[str, Any]:
    return {"name": vc.name, "description": vc.description, "role": role, "gpus": shares}


def _whole(vc: VirtualCluster, role: str | None) -> dict[str, Any]:
    """With its quota and its rules, of one reading of the quotas."""
    book = quota_book()
    return _vc(vc, vc_shares(vcs=[vc], book=book)[vc.pk], role) | vc_detail(vc=vc, book=book)
