"""Looks at alerts periodically, in a thread of the workers that take the ``control`` queue.

It must report a stopped scheduler or a dead Redis, so it depends on neither, and sends its messages itself.
"""

from __future__ import annotations

from django.utils import timezone

from portal.alerts.telling import LOOK_S, alerts_look
from portal.common.control_threads import ControlStep, ControlThread
from portal.notices.lanes import send_deliveries, send_mails


class AlertThread(ControlThread):
    """One look every ``pause_s`` seconds, until closed."""

    name = "alerts"

    def __init__(self, pause_s: float = LOOK_S) -> None:
        super().__init__(pause_s)

    def turn(self) -> None:
        if alerts_look(now=timezone.now()):
            try:
                send_mails()
            finally:  # one channel must not block the other
                send_deliveries()


class AlertsStep(ControlStep):
    def thread(self) -> ControlThread:
        return AlertThread()
