"""Names of jobs and tasks on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from berth.client import Client
from berth.errors import Misused, NotFound
from berth.model.jobs import TaskAttempt

JOB_HELP = "Its id, or a name: train (your newest of that name), train#3, alice/train#3."
LABEL = re.compile(r"(?:(?P<user>[^/#]+)/)?(?P<name>[^/#]+)(?:#(?P<run>[0-9]+))?")
TASK = re.compile(r"(?P<role>[^/]+)(?:/(?P<index>[0-9]{1,6}))?")


def job_id(client: Client, named: str) -> int:
    """The id of the named job. Raises NotFound, Misused."""
    if named.isascii() and named.isdecimal():
        return int(named)
    match = LABEL.fullmatch(named)
    if match is None:
        raise Misused(f"{named!r} names no job: write its id, or a name such as train#3 or alice/train#3")
    user, name = match["user"] or client.me().username, match["name"]
    run = int(match["run"]) if match["run"] else None
    for job in client.jobs.list(user=user, name=name):
        if job.name == name and run in (None, job.run):
            return job.id
        if job.name == name and run is not None and job.run < run:
            break  # newest first: it does not come any more
    raise NotFound(404, "Not found", f"There is no job {named} of {user} that you may see.")


@dataclass(frozen=True)
class TaskName:
    """``role/index``; a role alone means its first task."""

    role: str
    index: int

    @staticmethod
    def of(text: str) -> TaskName:
        """Raises Misused."""
        match = TASK.fullmatch(text)
        if match is None:
            raise Misused(f"{text!r} names no task: write it as role/index, such as worker/0")
        return TaskName(match["role"], int(match["index"] or 0))


def newest_attempt(client: Client, job: int, task: TaskName | None) -> TaskAttempt:
    """The newest attempt of the task, or of the job's first. Raises NotFound."""
    for row in client.jobs.tasks(job):
        if task is None or (row.role, row.index) == (task.role, task.index):
            if row.attempts:
                return row.attempts[0]
            raise NotFound(404, "Not found", f"Task {row.name} of job {job} has not started yet.")
    raise NotFound(404, "Not found", f"Job {job} has no task {task.role}/{task.index}." if task else "It has no task.")
