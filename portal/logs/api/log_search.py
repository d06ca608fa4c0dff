"""REST: finding a text in a whole log, a bounded stretch of it with each request."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from redis import RedisError
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.errors import Unavailable
from portal.common.serializers import Text
from portal.common.shapes import Shape
from portal.jobs.api import ChosenTask, chosen_task
from portal.jobs.limits import SEARCHES
from portal.jobs.services.read_audit import log_read
from portal.logs.archive_store import Archive
from portal.logs.archiver import log_of
from portal.logs.reader import LogReader
from portal.logs.search import Bounds, Found, search
from portal.logs.stream import LogOf, streams_client

LONGEST = 200
MOST_HITS = 500
SECONDS = 0.3
"""After so long a request answers with what it has; a chunk that is begun is ended."""
FURTHEST = 2**62


class SearchQuery(ChosenTask):
    text = Text(max_length=LONGEST, trim_whitespace=False, help_text="what to find in a line; no pattern")
    offset = serializers.IntegerField(
        min_value=0, max_value=FURTHEST, required=False,
        help_text="where from; else the log's beginning, or its end where `way` is `backward`",
    )  # fmt: skip
    way = serializers.ChoiceField(
        ["forward", "backward"], default="forward", help_text="from `offset` on, or before it"
    )
    limit = serializers.IntegerField(
        min_value=0, max_value=MOST_HITS, default=50, help_text="about so many lines; 0: only count them"
    )

    def validate_text(self, text: str) -> str:
        if not text or "\n" in text:
            raise serializers.ValidationError("Give one or more characters, and no line break.")
        return text


class HitAnswer(Shape):
    """A line with the text."""

    offset = serializers.IntegerField(help_text="where in the log the record stands that it begins in")
    time_ms = serializers.IntegerField(help_text="since 1970")
    stream = serializers.IntegerField(help_text="1 stdout, 2 stderr, 3 a mark of Berth's")
    text = serializers.CharField(help_text="without colours; of a long line the part around the text")


class SearchAnswer(Shape):
    """What a stretch of a log has of a text."""

    task_attempt = serializers.UUIDField()
    start = serializers.IntegerField(help_text="where the stretch begins that was searched")
    end = serializers.IntegerField(help_text="where it ends")
    log_end = serializers.IntegerField(help_text="where the log ends now")
    count = serializers.IntegerField(help_text="lines of it that have the text")
    hits = HitAnswer(many=True)
    next_offset = serializers.IntegerField(
        allow_null=True,
        help_text="`offset` of the request that searches on; null: all of that way is searched",
    )


class LogSearchView(ApiView):
    """A text in the log of a task."""

    problems = (429, 503)

    @extend_schema(operation_id="job_log_search", parameters=[SearchQuery], responses={200: SearchAnswer})
    def get(self, request: Request, job_id: int) -> Response:
        """Lines that have a text, whatever their case and colours, searched in the log as it is stored. One request
        searches for about 0.3 s and answers with what it has found; ask again with `next_offset` as `offset` until that
        is null. What was not asked for any more is not searched: to end a search, do not ask."""
        query = SearchQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        row = chosen_task(user=self.user, job_id=job_id, wanted=wanted)
        now = timezone.now()
        SEARCHES.take(str(self.user.pk), now=now)
        log_read(user=self.user, attempt=row, now=now)
        reader, log = LogReader(Archive(settings.LOG_DIR), streams_client()), log_of(row)
        try:
            return Response({"task_attempt": str(row.pk), **_answer(reader, log, wanted)})
        except RedisError:
            raise Unavailable("The newest part of the log cannot be reached now.") from None


def _answer(reader: LogReader, log: LogOf, wanted: dict[str, Any]) -> dict[str, Any]:
    backward, end = wanted["way"] == "backward", reader.end(log)
    start = wanted.get("offset", end if backward else 0)
    until = time.monotonic() + SECONDS
    found = search(
        reader, log, wanted["text"], start=reader.boundary(log, start) if 0 < start < end else start, backward=backward,
        bounds=Bounds(wanted["limit"], lambda: time.monotonic() >= until),
    )  # fmt: skip
    return {
        "start": found.start,
        "end": found.end,
        "log_end": end,
        "count": found.count,
        "hits": HitAnswer(found.hits, many=True).data,
        "next_offset": _next(found, backward),
    }


def _next(found: Found, backward: bool) -> int | None:
    if not found.more:
        return None
    return found.start if backward else found.end
