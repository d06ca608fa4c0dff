"""REST: the curves of a task, while it runs and afterwards, and advice from them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.moments import Moment
from portal.common.serializers import Answer, Ready
from portal.common.shapes import Shape
from portal.jobs.api import ChosenTask, chosen_task
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.visible import job_get
from portal.logs.stream import streams_client
from portal.metrics.advice import ADVICE_CODES, job_advice
from portal.metrics.points import BUCKET_S, OF_GPU, OF_TASK, Band
from portal.metrics.reading import CurveReader, Curves, GpuOf, Series
from portal.metrics.record import Records

METRICS = [(one.name, one.name) for one in (*OF_TASK, *OF_GPU)]
LONGEST_STEP = 86_400


class MetricsQuery(ChosenTask):
    attempt = serializers.IntegerField(
        min_value=1, max_value=999_999, required=False, help_text="number of the job's attempt; else the newest"
    )
    gpu = serializers.IntegerField(
        min_value=0, max_value=999, required=False, help_text="index of a GPU on its node; else all of the task"
    )
    step = serializers.IntegerField(
        min_value=BUCKET_S, max_value=LONGEST_STEP, default=BUCKET_S, help_text="seconds of a point at least"
    )

    def get_fields(self) -> dict[str, Any]:
        # Two words of Python's own.
        moments = {
            "from": Moment(required=False, help_text="points from then on"),
            "to": Moment(required=False, help_text="points before that"),
        }
        return {**super().get_fields(), **moments}


class GpuOfAnswer(Shape):
    """A GPU of the task."""

    index = serializers.IntegerField(help_text="as its node counts")
    uuid = serializers.CharField()


class SeriesAnswer(Ready):
    """One curve: for each point mean, least and most of its readings; null where there were none."""

    metric = serializers.ChoiceField(METRICS)
    unit = serializers.CharField()
    gpu = GpuOfAnswer(allow_null=True, help_text="null: of the whole task")
    mean = serializers.ListField(child=serializers.FloatField(allow_null=True))
    min = serializers.ListField(child=serializers.FloatField(allow_null=True))
    max = serializers.ListField(child=serializers.FloatField(allow_null=True))


class MetricsAnswer(Answer):
    whole = True

    task_attempt = serializers.UUIDField()
    attempt = serializers.IntegerField(help_text="number of the job's attempt")
    role = serializers.CharField()
    index = serializers.IntegerField()
    node = serializers.CharField()
    times = serializers.ListField(
        child=serializers.IntegerField(), help_text="where each point begins, in seconds since 1970 (UTC)"
    )
    seconds = serializers.ListField(child=serializers.IntegerField(), help_text="how long each point is")
    series = SeriesAnswer(many=True)


class MetricsView(ApiView):
    """What a task used."""

    @extend_schema(operation_id="job_metrics", parameters=[MetricsQuery], responses=MetricsAnswer)
    def get(self, request: Request, job_id: int) -> Response:
        """CPU and memory of a task, the steps of its training where it tells them, and utilisation, memory, power and
        temperature of its GPUs, with what they count of their multiprocessors (from Hopper on), as curves over the same
        points: ten seconds each in a run's first hour, a minute each later, and wider the longer a run is, so that one
        has some 720 points at most. A running task's reach to its newest reading."""
        query = MetricsQuery(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        row = chosen_task(user=self.user, job_id=job_id, wanted=wanted)
        reader = CurveReader(Records(settings.METRICS_DIR), streams_client())
        curves = reader.read(
            row, first=wanted.get("from"), end=wanted.get("to"), step=wanted["step"], gpu=wanted.get("gpu")
        )
        return Response(_answer(row, curves))


class AdviceOne(Answer):
    """One piece of advice."""

    whole = True

    code = serializers.ChoiceField(ADVICE_CODES)
    message = serializers.CharField(help_text="a sentence in your language")
    numbers = serializers.DictField(child=serializers.IntegerField(), help_text="what it rests on")


class AdviceAnswer(Answer):
    whole = True

    advice = AdviceOne(many=True)


class AdviceView(ApiView):
    """What a job asked for and did not use, and what holds it up."""

    @extend_schema(operation_id="job_advice", responses=AdviceAnswer)
    def get(self, request: Request, job_id: int) -> Response:
        """Advice from the readings of the job's newest attempt, once they cover ten minutes: GPUs that did nothing,
        memory of GPUs that was not used, CPUs that hold them up, memory that nearly ran out. Nothing acts on it."""
        job = job_get(user=self.user, job_id=job_id)
        return Response({"advice": [asdict(one) for one in job_advice(job=job)]})


def _answer(row: TaskAttempt, curves: Curves) -> dict[str, Any]:
    return {
        "task_attempt": str(row.pk),
        "attempt": row.job_attempt.number,
        "role": row.task.role.name,
        "index": row.task.index,
        "node": row.node.name,
        "times": curves.times,
        "seconds": curves.seconds,
        "series": [_series(one) for one in curves.series],
    }


def _series(one: Series) -> dict[str, Any]:
    gpu: GpuOf | None = one.gpu
    mean, least, most = ([_value(band, place) for band in one.bands] for place in range(3))
    return {
        "metric": one.metric.name,
        "unit": one.metric.unit,
        "gpu": None if gpu is None else {"index": gpu.index, "uuid": gpu.uuid},
        "mean": mean,
        "min": least,
        "max": most,
    }


def _value(band: Band | None, place: int) -> float | None:
    return None if band is None else band[place]
