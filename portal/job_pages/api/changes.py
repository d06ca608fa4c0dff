"""REST: what people change of jobs besides their course: tags, priority class, place in the queue; and of several at
once."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.priorities import PRIORITY_CLASSES
from portal.common.serializers import Body, Text, Truth, Whole
from portal.common.shapes import Shape
from portal.job_file.problems import SpecInvalid
from portal.job_pages.api.answers import JobDetailAnswer
from portal.job_pages.api.jobs import job_detail
from portal.job_pages.api.requests import faults_of
from portal.jobs.models import TAG_LENGTH
from portal.jobs.selectors.lists import job_listed
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.services.bulk import AT_ONCE, jobs_stop, jobs_tag
from portal.jobs.services.priority import job_change_priority
from portal.jobs.services.tags import job_tag
from portal.queue.services.order import Place, job_place

FURTHEST_ID = 2**62


def _tags(text: str) -> serializers.ListField:
    return serializers.ListField(
        child=Text(max_length=TAG_LENGTH, trim_whitespace=False), max_length=50, default=list, help_text=text
    )


class TagsBody(Body):
    add = _tags("tags to give; what the job has already stays once")
    remove = _tags("tags to take off; what the job has not is passed over")


class TagsAnswer(Shape):
    """A job's tags."""

    tags = serializers.ListField(child=serializers.CharField(), help_text="oldest first")


class PriorityBody(Body):
    priority_class = serializers.ChoiceField(list(PRIORITY_CLASSES), help_text="highest first: crit, prod, test, oppo")


class PlaceBody(Body):
    """One of the first three."""

    to = serializers.ChoiceField(
        ["front", "own"], required=False, help_text="before all of its class; or where it would stand by itself"
    )
    before = Whole(min_value=1, max_value=FURTHEST_ID, required=False, help_text="id of a waiting job")
    after = Whole(min_value=1, max_value=FURTHEST_ID, required=False, help_text="id of a waiting job")

    seen = serializers.ListField(
        child=Whole(min_value=1, max_value=FURTHEST_ID), max_length=200, default=list,
        help_text="ids of waiting jobs in the order from which the place was chosen: 409 where it is another by now",
    )  # fmt: skip

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs.keys() - {"seen"}) != 1:
            raise ValidationError("Name one of `to`, `before` and `after`.")
        return attrs


class BulkBody(Body):
    jobs = serializers.ListField(
        child=Whole(min_value=1, max_value=FURTHEST_ID), min_length=1, max_length=AT_ONCE, help_text="ids"
    )
    stop = Truth(default=False, help_text="stop them; not together with tags")
    add_tags = _tags("tags to give them")
    remove_tags = _tags("tags to take off them")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["stop"] is bool(attrs["add_tags"] or attrs["remove_tags"]):
            raise ValidationError("Say what to do: `stop`, or tags to add and remove.")
        return attrs


class DoneAnswer(Shape):
    """What became of one of several jobs."""

    job = serializers.IntegerField()
    label = serializers.CharField(allow_blank=True, help_text="user/name#run; empty: none that you may see")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    done = serializers.BooleanField()
    message = serializers.CharField(allow_blank=True, help_text="what stood against it")


class TagsView(ApiView):
    """A job's tags."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(
        operation_id="job_tag", request=TagsBody, responses={200: TagsAnswer},
    )  # fmt: skip
    def patch(self, request: Request, job_id: int) -> Response:
        """Gives the job tags and takes others off; answers those that it has then. A tag is a text without commas. For
        its owner, leads of its virtual cluster and administrators; 409 for more than 50."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_TAG)
        return Response({"tags": job_tag(job=job, **self.body(TagsBody), actor=self.user, now=timezone.now())})


class PriorityView(ApiView):
    """A job's priority class."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(
        operation_id="job_change_priority", request=PriorityBody, responses={200: JobDetailAnswer},
    )  # fmt: skip
    def post(self, request: Request, job_id: int) -> Response:
        """Gives a job that waits or runs another priority class, up to the highest one that you may use in its virtual
        cluster. Its file is judged as if its owner submitted it so: 400 with every problem. A job that runs can neither
        become opportunistic nor be so no more: 409, as for one that is over. For its owner, leads of its virtual
        cluster and administrators."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_PRIORITY)
        to = self.body(PriorityBody)["priority_class"]
        try:
            job_change_priority(job=job, to=to, actor=self.user, now=timezone.now())
        except SpecInvalid as error:
            raise faults_of(error) from error
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


class PlaceView(ApiView):
    """A waiting job's place in the queue."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(
        operation_id="job_place", request=PlaceBody, responses={200: JobDetailAnswer},
    )  # fmt: skip
    def post(self, request: Request, job_id: int) -> Response:
        """Moves a waiting job in the queue of its virtual cluster and class, among those that want a kind of GPU (SKU)
        in common with it, or none as it does: others are not in its way. Leads and administrators move it among all of
        these: it and those that stand before it keep these places, whatever their users have used of late. An owner who
        is no lead moves it among the owner's own that no lead has placed. `{"to": "own"}` lets it stand where it would
        by itself. 409 when it, or the other job, does not wait there (any more), for a place behind the first 200, and
        when the jobs in `seen` that still wait stand in another order than there."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_ORDER)
        asked = self.body(PlaceBody)
        own, seen = asked.get("to") == "own", tuple(asked["seen"])
        place = Place(asked.get("before"), asked.get("after"), own=own, seen=seen)
        job_place(job=job, to=place, actor=self.user, now=timezone.now())
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


class BulkView(ApiView):
    """Several jobs at once."""

    scope = Scope.SUBMIT
    pagination_class = None

    @extend_schema(
        operation_id="job_bulk", request=BulkBody, responses={200: DoneAnswer(many=True)},
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Stops or tags up to 200 jobs, each by itself: the answer tells of each, in the order given, whether it was
        done, and else why not."""
        body, now = self.body(BulkBody), timezone.now()
        if body["stop"]:
            done = jobs_stop(jobs=body["jobs"], actor=self.user, now=now)
        else:
            done = jobs_tag(
                jobs=body["jobs"], add=body["add_tags"], remove=body["remove_tags"], actor=self.user, now=now
            )
        return Response(DoneAnswer(done, many=True).data)
