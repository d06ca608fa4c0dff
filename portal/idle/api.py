"""REST: what becomes of jobs whose GPUs do nothing."""

from __future__ import annotations

from typing import Any

import django_filters
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import IF_MATCH, ApiView, versioned
from portal.accounts.rights import Action
from portal.common.filters import GivenFilter, NamedFilter
from portal.common.moments import Moment
from portal.common.parameters import DRY_RUN, dry_run
from portal.common.rows import RowAnswer, RowBody
from portal.common.serializers import Answer, Text, Whole
from portal.common.versions import version_check
from portal.idle.models import TERMS, IdleExemption, IdlePolicy, IdleWarning
from portal.idle.selectors import (
    idle_exempted,
    idle_exemption_to_remove,
    idle_exemptions,
    idle_policy_of,
    idle_policy_told,
    idle_set_right,
    idle_warning_of,
    idle_would_warn,
)
from portal.idle.services.policy import idle_exemption_add, idle_exemption_remove, idle_policy_remove, idle_policy_set
from portal.idle.services.warnings import idle_extend, idle_left
from portal.jobs.models import Job
from portal.jobs.selectors.visible import job_get, job_with_right
from portal.jobs.states import IdleAction
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vc_with_right


class IdlePolicyBody(RowBody):
    """What shall be different; what is not named stays."""

    change = True

    class Meta:
        model = IdlePolicy
        fields = TERMS


class IdlePolicyAnswer(RowAnswer):
    whole = True
    vc = serializers.CharField(
        source="vc.name", allow_null=True, default=None, help_text="whose policy it is; null: the cluster's"
    )

    class Meta:
        model = IdlePolicy
        fields: tuple[str, ...] = ("vc", *TERMS)


class WouldWarnAnswer(Answer):
    id = serializers.IntegerField()
    label = serializers.CharField()  # type: ignore[assignment]  # a field, which DRF takes out of the class
    vc = serializers.CharField(source="vc.name")
    gpu_count = serializers.IntegerField()


class IdlePolicyChangedAnswer(IdlePolicyAnswer):
    dry_run = serializers.BooleanField()
    would_warn = WouldWarnAnswer(many=True, help_text="of a dry run: the running jobs that would have a warning now")

    class Meta(IdlePolicyAnswer.Meta):
        fields = (*IdlePolicyAnswer.Meta.fields, "dry_run", "would_warn")


class _PolicyView(ApiView):
    """A policy, of a virtual cluster or of all that have none of their own."""

    problems = (409,)

    def _answer(self, policy: IdlePolicy) -> Response:
        return versioned(IdlePolicyAnswer(policy), idle_policy_told(policy))

    def _change(self, request: Request, vc: VirtualCluster | None) -> Response:
        terms, dry = self.changes(IdlePolicyBody), dry_run(request)
        now, seen = timezone.now(), self.seen()
        if not dry:
            policy = idle_policy_set(vc=vc, terms=terms, seen=seen, now=now, actor=self.user.username)
            return _changed(policy, dry=False, jobs=[])
        held = idle_policy_told(idle_policy_of(vc.pk if vc else None))
        version_check(held, seen)
        policy = IdlePolicy(vc=vc, **{**held, **terms})
        return _changed(policy, dry=True, jobs=idle_would_warn(policy=policy, now=now))


def _changed(policy: IdlePolicy, *, dry: bool, jobs: list[Job]) -> Response:
    told = idle_policy_told(policy)
    answer = IdlePolicyChangedAnswer({**told, "vc": policy.vc, "dry_run": dry, "would_warn": jobs})
    return Response(answer.data) if dry else versioned(answer, told)


class IdlePolicyView(_PolicyView):
    """What becomes of idle jobs where no virtual cluster says otherwise."""

    @extend_schema(operation_id="idle_policy", responses=IdlePolicyAnswer)
    def get(self, request: Request) -> Response:
        """The cluster's policy, with an ETag. Where nobody has set one: a warning after an hour, and nothing more."""
        return self._answer(idle_policy_of(None))

    @extend_schema(
        operation_id="idle_policy_set", request=IdlePolicyBody, parameters=[DRY_RUN, IF_MATCH],
        responses=IdlePolicyChangedAnswer,
    )  # fmt: skip
    def patch(self, request: Request) -> Response:
        """Changes what is named. A job is idle while all its GPUs are below `percent`; minutes of which not all of them
        told do not count, and neither do the first of a task. With `dry_run` it only says which jobs would have a
        warning now. Warnings under other terms are withdrawn and made anew. For administrators."""
        idle_set_right(user=self.user)
        return self._change(request, None)


class TeamIdlePolicyView(_PolicyView):
    """What becomes of a virtual cluster's idle jobs."""

    @extend_schema(operation_id="virtual_cluster_idle_policy", responses=IdlePolicyAnswer)
    def get(self, request: Request, name: str) -> Response:
        """What holds in the virtual cluster, with an ETag: its own policy, else (`vc` null) the cluster's. For those
        who are in it."""
        vc = vc_with_right(user=self.user, name=name, action=Action.IDLE_READ)
        return self._answer(idle_policy_of(vc.pk))

    @extend_schema(
        operation_id="virtual_cluster_idle_policy_set", request=IdlePolicyBody, parameters=[DRY_RUN, IF_MATCH],
        responses=IdlePolicyChangedAnswer,
    )  # fmt: skip
    def patch(self, request: Request, name: str) -> Response:
        """Gives it a policy of its own, or changes that; what is not named is as it holds there now. `off` leaves all
        its jobs alone. For administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.IDLE_SET)
        return self._change(request, vc)

    @extend_schema(operation_id="virtual_cluster_idle_policy_remove", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """The cluster's policy holds in it again. For administrators."""
        vc = vc_with_right(user=self.user, name=name, action=Action.IDLE_SET)
        idle_policy_remove(vc=vc, **self.by)
        return Response(status=204)


# ---------------------------------------------------------------- exceptions


class IdleExemptionBody(RowBody):
    vc = Text(max_length=64, allow_null=True, default=None, help_text="only jobs of this virtual cluster; null: of all")
    user = Text(max_length=64, allow_null=True, default=None, help_text="only jobs of this user")
    job = Whole(min_value=1, allow_null=True, default=None, help_text="only this job, which says its virtual cluster")
    until = Moment(allow_null=True, default=None, help_text="null: until it is removed")

    class Meta:
        model = IdleExemption
        fields = ("vc", "user", "job", "pattern", "tag", "reason", "until")


class IdleExemptionAnswer(RowAnswer):
    vc = serializers.CharField(source="vc.name", allow_null=True, default=None)
    user = serializers.CharField(source="user.username", allow_null=True, default=None)
    job = serializers.IntegerField(source="job_id", allow_null=True)

    class Meta:
        model = IdleExemption
        fields = ("id", "vc", "user", "job", "pattern", "tag", "reason", "until", "author", "created_at")


class IdleExemptionFilter(GivenFilter):
    """Filters of the list of exceptions."""

    of = IdleExemption

    vc = NamedFilter(VirtualCluster, "name", help_text="of this virtual cluster")
    job = django_filters.NumberFilter(help_text="of this job")


class IdleExemptionsView(ApiView):
    """Jobs that the policy leaves alone."""

    filterset_class = IdleExemptionFilter
    problems = (409,)

    @extend_schema(operation_id="idle_exemption_list", responses=IdleExemptionAnswer(many=True))
    def get(self, request: Request) -> Response:
        """The exceptions of the whole cluster (`vc` null) and of one's virtual clusters, newest first; also those that
        are over."""
        return self.page(idle_exemptions(user=self.user), IdleExemptionAnswer)

    @extend_schema(operation_id="idle_exemption_add", request=IdleExemptionBody, responses={201: IdleExemptionAnswer})
    def post(self, request: Request) -> Response:
        """Leaves jobs alone: all that fit everything that is named, of which at least one is a user, a job, a pattern
        of names or a tag (whoever may tag a job can except it by that). For administrators, and of a virtual cluster
        its leads. To except a virtual cluster as a whole, set its policy to `off`."""
        body: dict[str, Any] = self.body(IdleExemptionBody)
        named = {name: body.pop(name) for name in ("vc", "user", "job")}
        whom = idle_exempted(user=self.user, vc=named["vc"], username=named["user"], job_id=named["job"])
        made = idle_exemption_add(vc=whom.vc, user=whom.user, job=whom.job, **body, **self.by)
        return Response(IdleExemptionAnswer(made).data, status=201)


class IdleExemptionView(ApiView):
    """One exception."""

    @extend_schema(operation_id="idle_exemption_remove", responses={204: None})
    def delete(self, request: Request, exemption_id: int) -> Response:
        """The policy holds for these jobs again. For administrators, and of a virtual cluster its leads."""
        row = idle_exemption_to_remove(user=self.user, exemption_id=exemption_id)
        idle_exemption_remove(exemption=row, **self.by)
        return Response(status=204)


# ---------------------------------------------------------------- a job


class IdleWarningAnswer(Answer):
    whole = True
    action = serializers.ChoiceField(IdleAction.choices, help_text="what follows; of `warn` nothing")
    percent = serializers.IntegerField()
    gpus = serializers.IntegerField()
    since = serializers.DateTimeField(help_text="since when its GPUs are idle")
    warned_at = serializers.DateTimeField()
    due_at = serializers.DateTimeField(allow_null=True, help_text="when it follows; null: never")
    acted_at = serializers.DateTimeField(allow_null=True, help_text="when it was made opportunistic")
    policy_of = serializers.CharField(
        source="source", allow_blank=True, help_text="the virtual cluster whose policy it is; empty: the cluster's"
    )


class JobIdleAnswer(Answer):
    whole = True
    warning = IdleWarningAnswer(allow_null=True, help_text="null: it is not warned")
    extensions_left = serializers.IntegerField(help_text="how often what follows can be put off")
    extension_minutes = serializers.IntegerField(help_text="each time by so many minutes")


def _job_idle(job: Job, warning: IdleWarning | None) -> Response:
    left = idle_left(warning=warning, vc_id=job.vc_id) if warning and warning.due_at and not warning.acted_at else None
    told = {
        "warning": warning,
        "extensions_left": left.times if left else 0,
        "extension_minutes": left.minutes if left else 0,
    }
    return Response(JobIdleAnswer(told).data)


class JobIdleView(ApiView):
    """Whether a job's GPUs do nothing."""

    @extend_schema(operation_id="job_idle", responses=JobIdleAnswer)
    def get(self, request: Request, job_id: int) -> Response:
        """The open warning that its GPUs do nothing, and how often what follows can be put off."""
        job = job_get(user=self.user, job_id=job_id)
        return _job_idle(job, idle_warning_of(job=job))


class JobIdleExtendView(ApiView):
    """More time for a job whose GPUs do nothing."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="job_idle_extend", request=None, responses=JobIdleAnswer)
    def post(self, request: Request, job_id: int) -> Response:
        """Puts off what was announced to the job, as often as the policy allows in one attempt; 409 when that is used
        up, or nothing was announced. For its owner, leads and administrators."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.IDLE_EXTEND)
        return _job_idle(job, idle_extend(job=job, **self.by))
