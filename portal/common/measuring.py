"""What a worker counts of itself, for Prometheus: at ``/metrics`` of a port of its own, where one was named."""

from __future__ import annotations

import sys
from typing import Any

from celery import bootsteps
from django.conf import settings
from prometheus_client import start_http_server


class MeasuresStep(bootsteps.StartStopStep):
    """With the worker, in which all tasks are threads of one process."""

    def start(self, parent: Any) -> None:
        if not settings.METRICS_PORT:
            return
        try:
            self._server, self._thread = start_http_server(settings.METRICS_PORT, settings.METRICS_BIND)
        except OSError as error:
            where = f"{settings.METRICS_BIND}:{settings.METRICS_PORT}"
            sys.exit(f"berth: BERTH_METRICS_PORT: cannot listen on {where}: {error.strerror}.")

    def stop(self, parent: Any) -> None:
        if settings.METRICS_PORT:
            self._server.shutdown()
            self._thread.join()

    terminate = stop
