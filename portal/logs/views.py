"""The section of a job's page with its tasks and their logs: of one task, of several, or of all merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zlib import crc32

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.common.errors import NotFound
from portal.jobs.models import Task, TaskAttempt, TaskRole
from portal.jobs.selectors.details import RoleState, job_roles
from portal.jobs.selectors.runs import LOGS_TOGETHER, run_name, runs_together
from portal.jobs.selectors.tasks import TasksPage, tasks_found
from portal.jobs.selectors.visible import task_attempt_visible
from portal.jobs.states import TaskState
from portal.jobs.views.asked import number_asked
from portal.jobs.views.frame import Frame
from portal.jobs.views.ports import ports_shown
from portal.logs.ending import log_gone
from portal.terminal.views.ssh import SshShown, ssh_shown

ALL = "all"
FOLDED_FROM = 13
"""A role with so many tasks or more has them folded by state."""
OPEN_UP_TO = 30
NEEDS_LOOKING_AT = (
    TaskState.FAILED,
    TaskState.RUNNING,
    TaskState.STARTING,
    TaskState.WAITING,
    TaskState.STOPPED,
    TaskState.SUCCEEDED,
)
"""Task states, the most interesting first."""


@dataclass(frozen=True, slots=True)
class LogShown:
    """The selection that the log viewer opens. ``runs``: the task attempts, several if ``merged``; ``query`` selects
    them again."""

    key: str
    title: str
    runs: list[TaskAttempt]
    merged: bool
    query: str

    @property
    def one(self) -> TaskAttempt:
        return self.runs[0]

    @property
    def chosen(self) -> set[UUID]:
        return {run.pk for run in self.runs}


@dataclass(frozen=True, slots=True)
class StateGroup:
    """The tasks of a role in one state; ``folded`` groups are collapsed at first."""

    state: str
    label: str
    tasks: list[Task]
    folded: bool


@dataclass(frozen=True, slots=True)
class RoleTasks:
    """A role with its counts and this page's tasks by state, or all in one group if they are few."""

    role: TaskRole
    counts: Sequence[tuple[str, str, int]]
    groups: list[StateGroup]
    by_state: bool


def log_section(frame: Frame) -> dict[str, Any]:
    """Template context: the tasks, the logs of one or several, and what ended each attempt."""
    attempt = frame.attempt
    tasks = tasks_found(job=frame.job, attempt=attempt, first=number_asked(frame.request, "first"))
    shown = _shown(frame, attempt, tasks)
    asked = attempt if "attempt" in frame.request.GET else None
    chosen = {"attempt": asked, "first": tasks.first or None}
    query = urlencode({name: value for name, value in chosen.items() if value is not None})
    return {
        "roles": _by_state(job_roles(job=frame.job), tasks.tasks, shown),
        "tasks": tasks,
        "attempt": attempt,
        "shown": shown,
        "gone": log_gone(frame.job, now=timezone.now()),
        "log_days": settings.LOG_RETENTION_DAYS,
        "together": LOGS_TOGETHER,
        "started": len(tasks.newest_runs),
        "ports": ports_shown(job=frame.job, runs=_named_runs(tasks)),
        "ssh": _ssh(frame, tasks),
        "chosen": "&".join(part for part in (query, shown.query if shown else "") if part),
    }


def _ssh(frame: Frame, tasks: TasksPage) -> SshShown | None:
    if not frame.may["may_shell"]:
        return None
    own = frame.job.user_id == frame.request.user.pk
    return ssh_shown(job=frame.job, runs=_named_runs(tasks), own=own)


def _named_runs(tasks: TasksPage) -> list[tuple[str, TaskAttempt]]:
    newest: dict[int, list[TaskAttempt]] = {task.pk: task.__dict__["shown"] for task in tasks.tasks}
    return [(f"{task.role.name}/{task.index}", run) for task in tasks.tasks for run in newest[task.pk][:1]]


def _shown(frame: Frame, attempt: int | None, tasks: TasksPage) -> LogShown | None:
    """The selected logs, else that of the first task that failed by itself, else of the first task."""
    asked = frame.request.GET.getlist("log")
    if asked == [ALL] or len(asked) > 1:
        return _merged(frame, attempt, [] if asked == [ALL] else asked)
    if asked:
        found = task_attempt_visible(frame.request.user, asked[0])
        if found.task.job_id != frame.job.pk:
            raise NotFound("task attempt", asked[0])
        return _single(found)
    failed = (run for run in tasks.newest_runs if run.cause and run.exit_code != 0 and not run.stop_reason)
    run = next(failed, None) or next(iter(tasks.newest_runs), None)
    return _single(task_attempt_visible(frame.request.user, run.pk)) if run else None


def _single(run: TaskAttempt) -> LogShown:
    return LogShown(str(run.pk), run_name(run), [run], False, urlencode({"log": run.pk}))


def _merged(frame: Frame, attempt: int | None, asked: Sequence[str]) -> LogShown | None:
    runs = runs_together(job=frame.job, attempt=attempt, chosen=[_uuid(text) for text in asked])
    if not runs:
        return None
    if not asked:
        return LogShown(f"{ALL}-{attempt}", _("All tasks"), runs, True, urlencode({"log": ALL}))
    ids = [str(run.pk) for run in runs]
    key = f"{crc32(''.join(sorted(ids)).encode()):08x}"
    return LogShown(key, _("%(count)s tasks") % {"count": len(runs)}, runs, True, urlencode({"log": ids}, True))


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("task attempt", text) from None


def _by_state(roles: Sequence[RoleState], tasks: Sequence[Task], shown: LogShown | None) -> list[RoleTasks]:
    of_role: dict[int, list[Task]] = {}
    for task in tasks:
        of_role.setdefault(task.role_id, []).append(task)
    return [_role(one, of_role[one.role.pk], shown) for one in roles if one.role.pk in of_role]


def _role(one: RoleState, tasks: list[Task], shown: LogShown | None) -> RoleTasks:
    counts = [(state, str(state.label), one.tasks[state]) for state in NEEDS_LOOKING_AT if one.tasks.get(state)]
    if len(tasks) < FOLDED_FROM:
        return RoleTasks(one.role, counts, [StateGroup("", "", tasks, False)], False)
    numbers = Counter(task.state for task in tasks)
    groups: list[StateGroup] = []
    for state in NEEDS_LOOKING_AT:
        if numbers[state]:
            same = [task for task in tasks if task.state == state]
            groups.append(StateGroup(state, str(state.label), same, _folded(same, shown, first=not groups)))
    return RoleTasks(one.role, counts, groups, True)


def _folded(tasks: list[Task], shown: LogShown | None, *, first: bool) -> bool:
    """Opens the first group unless it is too long, and the one with the task whose log is shown."""
    if shown and not shown.merged and any(task.pk == shown.one.task_id for task in tasks):
        return False
    return not (first and len(tasks) <= OPEN_UP_TO)
