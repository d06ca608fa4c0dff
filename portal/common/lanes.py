"""What may come in by a queue. Every node may push to the queue of reports, and what is pushed is a Celery message of
its making: so the worker of that queue knows tasks of reports only, and no task does what its message asks for besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery import Task, bootsteps

from nodes.protocol import REPORTS_QUEUE

REPORT_TASKS = "reports."


class PlainTask(Task[Any, Any]):
    """A task that is all there is in its message: nothing of ours goes on by callbacks, chains or chords, which would
    let a message order any other task on any other queue."""

    def before_start(self, task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.request.update(callbacks=None, errbacks=None, chain=None, chord=None)


class ReportsOnlyStep(bootsteps.StartStopStep):
    """Leaves a worker that takes reports, and nothing else, no other tasks to run."""

    def include_if(self, parent: Any) -> bool:
        return set(parent.app.amqp.queues.consume_from) == {REPORTS_QUEUE}

    def start(self, parent: Any) -> None:
        tasks = parent.app.tasks
        for name in [name for name in tasks if not name.startswith(REPORT_TASKS)]:
            tasks.unregister(name)
