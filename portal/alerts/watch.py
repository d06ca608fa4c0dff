"""Looks at the alerts again and again, in a thread of the workers that take the ``control`` queue.

That the scheduler has stopped, or Redis is away, is what must be told, so that this waits for neither, and sends what
it tells by itself.
"""

from __future__ import annotations

from django.utils import timezone

from portal.alerts.telling import LOOK_S, alerts_look
from portal.common.control_threads import ControlStep, ControlThread
from portal.notices.lanes import send_deliveries, send_mails


class AlertThread(ControlThread):
    """One look each ``pause_s`` seconds, until it is closed."""

    name = "alerts"

    def __init__(self, pause_s: float = LOOK_S) -> None:
        super().__init__(pause_s)

    def turn(self) -> None:
        if alerts_look(now=timezone.now()):
            try:
                send_mails()
            finally:  # one way out does not wait for the other
                send_deliveries()


class AlertsStep(ControlStep):
    def thread(self) -> ControlThread:
        return AlertThread()
