"""The tables of finished jobs, the ids that their rows get, and texts that many rows share."""

from __future__ import annotations

import json
from datetime import datetime
from random import Random
from uuid import UUID

from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Preemption, Task, TaskAttempt, TaskRole
from portal.usage.models import Measured
from tests.benchmarks.filling.tables import Table, json_of, next_key

IMAGE = "pytorch/pytorch:2.5.1-cuda12.4"


class Rows:
    """New rows, kept until ``write``; ids go on from those that are there."""

    digest = "sha256:" + "5e" * 32
    digests = json.dumps({IMAGE: digest})
    ports = json.dumps({"ssh": [20000], "http": [20001]})

    def __init__(self) -> None:
        self.first_job = next_key(Job)
        self._job, self._role, self._task = self.first_job, next_key(TaskRole), next_key(Task)
        self._attempt, self._event = next_key(JobAttempt), next_key(JobEvent)
        self.jobs_table = Table(
            Job,
            (
                *("id", "user", "vc", "name", "run", "state", "priority", "spec", "config", "submitted_at"),
                *("started_at", "ended_at", "end_reason", "end_message", "exit_code", "retries"),
            ),
        )
        self.roles = Table(
            TaskRole,
            (
                *("id", "job", "position", "name", "instances", "gpus", "cpu_milli", "memory_mb", "min_failed"),
                *("min_succeeded", "task_retry_count"),
            ),
        )
        self.tasks = Table(Task, ("id", "role", "job", "index", "state"))
        self.attempts = Table(
            JobAttempt,
            (
                *("id", "job", "number", "state", "created_at", "started_at", "ended_at", "end_reason"),
                *("end_message", "exit_code", "digests"),
            ),
        )
        self.runs = Table(
            TaskAttempt,
            (
                *("id", "task", "job_attempt", "number", "node", "phase", "state", "cpu_milli", "memory_mb", "ports"),
                *("digest", "container", "created_at", "prepared_at", "started_at", "ended_at", "released_at"),
                *("removed_at", "stop_reason", "stop_message", "cause", "exit_code", "log_complete"),
            ),
        )
        self.allocations = Table(
            Allocation, ("task_attempt", "leaf", "virtual_cell", "standing", "since", "created_at", "released_at")
        )
        self.measured = Table(Measured, ("task_attempt", "day", "measured_ms", "used_ms", "idle_ms"))
        self.events = Table(JobEvent, ("id", "job", "job_attempt", "task_attempt", "at", "code", "data", "actor"))
        self.preemptions = Table(Preemption, ("preemptor", "victim", "tasks", "gpus", "on_loan", "at", "deadline"))

    @property
    def jobs(self) -> int:
        """So many have an id."""
        return self._job - self.first_job

    def write(self) -> None:
        """All kept rows go into the database; those that are referred to first."""
        for table in (
            self.jobs_table, self.roles, self.tasks, self.attempts, self.runs, self.allocations, self.measured,
            self.events, self.preemptions,
        ):  # fmt: skip
            if table.rows:
                table.write()

    def ids_for_job(self, tasks: int) -> tuple[int, int, range]:
        """Of a job, of its role, and of so many tasks."""
        job, role, first = self._job, self._role, self._task
        self._job, self._role, self._task = job + 1, role + 1, first + tasks
        return job, role, range(first, first + tasks)

    def id_of_attempt(self) -> int:
        """Of a job's attempt."""
        self._attempt += 1
        return self._attempt - 1

    @staticmethod
    def uuid(rng: Random) -> UUID:
        """Of a task attempt."""
        return UUID(int=rng.getrandbits(128), version=4)

    def event(
        self,
        job: int,
        at: datetime,
        code: str,
        message: str,
        *,
        attempt: int | None = None,
        task: UUID | None = None,
        actor: str = "",
    ) -> None:
        """Something that happened."""
        self.events.add(self._event, job, attempt, task, at, code, json_of(message), actor)
        self._event += 1
