"""A worker's ``/metrics`` for Prometheus and ``/healthz``, which says whether it takes tasks; on a port of its own, if
one is set."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from threading import Event
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from celery import bootsteps
from django.conf import settings
from prometheus_client import start_http_server
from redis import RedisError

from portal.common.wake import redis_once

_consuming = Event()


class ConsumingStep(bootsteps.StartStopStep):
    """Tracks the worker's connection to Redis: stopped when it is lost, started when it is back."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, parent: Any) -> None:
        _consuming.set()

    def stop(self, parent: Any) -> None:
        _consuming.clear()


class MeasuresStep(bootsteps.StartStopStep):
    """Serves the endpoints for as long as the worker runs; its tasks are threads of one process."""

    def start(self, parent: Any) -> None:
        if not settings.METRICS_PORT:
            return
        try:
            self._server, self._thread = start_http_server(settings.METRICS_PORT, settings.METRICS_BIND)
        except OSError as error:
            where = f"{settings.METRICS_BIND}:{settings.METRICS_PORT}"
            sys.exit(f"berth: BERTH_METRICS_PORT: cannot listen on {where}: {error.strerror}.")
        measures = self._server.get_app()
        assert measures is not None  # set by start_http_server
        self._server.set_app(_with_health(measures))

    def stop(self, parent: Any) -> None:
        if settings.METRICS_PORT:
            self._server.shutdown()
            self._thread.join()

    terminate = stop


def _with_health(measures: WSGIApplication) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            return measures(environ, start_response)
        well = _takes_tasks()
        start_response("200 OK" if well else "503 Service Unavailable", [("Content-Type", "text/plain")])
        return [b"ok\n" if well else b"no tasks: Redis is away\n"]

    return answer


def _takes_tasks() -> bool:
    """Whether the worker consumes its queue, and Redis answers: it may be cut off without having noticed."""
    try:
        return _consuming.is_set() and bool(redis_once().ping())
    except RedisError:
        return False
