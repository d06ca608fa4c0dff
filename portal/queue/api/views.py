"""REST: what waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.pagination import ORDERING_PARAMETER, ByPlace, order_of
from portal.jobs.models import Job
from portal.queue.api.answers import QueueAnswer, QueueFilter
from portal.queue.outlook import Plan, plan_read
from portal.queue.selectors.queue import Queued, queue_ordered, queue_rows, queue_waiting
from portal.teams.selectors.visible import JobSight, job_sight


class QueueView(ApiView):
    """What waits."""

    pagination_class = ByPlace
    filterset_class = QueueFilter
    orders = ("submitted_at", "priority")

    @extend_schema(operation_id="queue_list", responses=QueueAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Every waiting job, where no `ordering` is given in the order in which the scheduler takes them, as its last
        plan had it."""
        sight, plan = job_sight(user=self.user), plan_read()
        return self.page(
            queue_waiting(),
            QueueAnswer,
            lambda ids: [_queued(one, sight) for one in queue_rows(ids=ids, plan=plan)],
            order=lambda jobs: self._ordered(jobs, plan),
        )

    def _ordered(self, jobs: QuerySet[Job], plan: Plan) -> Sequence[int] | QuerySet[Job, int]:
        if ORDERING_PARAMETER not in self.request.query_params:
            return queue_ordered(jobs, plan=plan)
        order = order_of(self.request, [*self.orders], None)
        return jobs.order_by(order.name, "id").values_list("pk", flat=True)


_COLUMNS = ("priority", "task_count", "gpu_count", "submitted_at")


def _queued(queued: Queued, sight: JobSight) -> dict[str, Any]:
    job = queued.job
    known = sight.covers(user_id=job.user_id, vc_id=job.vc_id)
    return {
        **{name: getattr(job, name) for name in _COLUMNS},
        "place": queued.place,
        "start": queued.start,
        "reserved": queued.reserved,
        "kept_gpus": queued.kept.gpus if queued.kept else 0,
        "vc": job.vc.name,
        "user": job.user.username,
        "job": job.pk if known else None,
        "label": job.label if known else None,
        "waiting_code": job.waiting_code if known else None,
        "waiting_message": job.waiting_message if known else None,
    }
