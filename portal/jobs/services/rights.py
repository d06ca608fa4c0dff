"""What a job asks for by right: its priority class, the caps of its virtual cluster, never to be preempted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import F, Sum

from portal.accounts.models import User
from portal.clusters.models import FirmRight, PinnedCell, VirtualCluster
from portal.clusters.selectors import firm_rights, highest_class, vc_quotas
from portal.common.priorities import CAPPED_CLASS, PRIORITY_CLASSES, PriorityClass, priority_name
from portal.jobs.models import TaskRole
from portal.jobs.spec import JobSpec, Problem
from portal.jobs.states import JOB_LIVE

CLASS = "extras.hivedScheduler.jobPriorityClass"
FIRM = "extras.berth.preemptible"


def right_problems(*, spec: JobSpec, user: User, by: User, now: datetime) -> Iterator[Problem]:
    """Why the user may not submit this into its virtual cluster, though the cluster could run it; ``by`` gives it its
    class."""
    yield from class_problems(spec=spec, by=by)
    vc = VirtualCluster.objects.get(name=spec.vc)
    yield from _pinned_problems(spec, vc)
    if spec.berth.preemptible is False:
        yield from _firm_problems(spec, vc, user, now)


def class_problems(*, spec: JobSpec, by: User) -> Iterator[Problem]:
    """Why ``by`` may not give a job of this virtual cluster its class."""
    vc = VirtualCluster.objects.get(name=spec.vc)
    yield from _class_problems(spec, vc, by)
    yield from _cap_problems(spec, vc)


def _class_problems(spec: JobSpec, vc: VirtualCluster, user: User) -> Iterator[Problem]:
    highest = highest_class(user=user, vc=vc)
    if spec.priority > PRIORITY_CLASSES[highest]:
        message = (
            f"{_class_words(spec.priority_class)} is above {_class_words(highest)}, the highest priority class that "
            f"you may use in {vc.name}"
        )
        yield Problem(CLASS, message, "class_too_high")


def _class_words(name: PriorityClass) -> str:
    """As the form calls it and as the file does."""
    return f"{priority_name(PRIORITY_CLASSES[name])} ({name})"


def _cap_problems(spec: JobSpec, vc: VirtualCluster) -> Iterator[Problem]:
    """A job that no waiting brings below a cap. Caps count guaranteed jobs only."""
    if spec.priority < 0:
        return
    asked = spec.gpu_count if spec.gang else max(role.resources.gpu for role in spec.roles)
    caps = [vc.user_gpus] if vc.user_gpus is not None else []
    if vc.user_factor is not None:
        caps.append(int(vc.user_factor * sum(vc_quotas(vcs=[vc])[vc.pk].values())))
    if caps and asked > min(caps):
        message = f"asks for {asked} GPUs at once; one user may hold {min(caps)} in {vc.name}"
        yield Problem("taskRoles", message, "user_cap")
    if vc.class_gpus is not None and spec.priority >= PRIORITY_CLASSES[CAPPED_CLASS] and asked > vc.class_gpus:
        message = (
            f"asks for {asked} GPUs at once; jobs of class {_class_words(CAPPED_CLASS)} and above may hold "
            f"{vc.class_gpus} in {vc.name} together"
        )
        yield Problem(CLASS, message, "class_cap")


def _pinned_problems(spec: JobSpec, vc: VirtualCluster) -> Iterator[Problem]:
    asked = {role.name: role.pinned_cell for role in spec.roles if role.pinned_cell}
    if not asked:
        return
    own = set(PinnedCell.objects.filter(vc=vc).values_list("name", flat=True))
    for role, cell in asked.items():
        if cell not in own:
            known = ", ".join(sorted(own)) or "none"
            path = f"extras.hivedScheduler.taskRoles.{role}.pinnedCellId"
            yield Problem(path, f"{vc.name} has no reserved servers {cell}; it has: {known}", "unknown")


def _firm_problems(spec: JobSpec, vc: VirtualCluster, user: User, now: datetime) -> Iterator[Problem]:
    right = firm_rights(now=now).get((vc.pk, user.pk), 0)
    if not right:
        message = f"you have no right to jobs in {vc.name} that are not preempted; ask an administrator"
        yield Problem(FIRM, message, "no_right")
        return
    used = firm_gpus(vc=vc, user=user)
    if used + spec.gpu_count > right:
        last = FirmRight.objects.get(vc=vc, user=user).last_day
        message = (
            f"you may hold {right} GPUs in {vc.name} without preemption until {last}; "
            f"your jobs there ask for {used}, this one for {spec.gpu_count}"
        )
        yield Problem(FIRM, message, "right_used_up")


def firm_gpus(*, vc: VirtualCluster, user: User) -> int:
    """GPUs of the user's jobs in the VC that are not over and asked never to be preempted."""
    live = TaskRole.objects.filter(
        job__vc=vc, job__user=user, job__state__in=JOB_LIVE, job__spec__berth__preemptible=False
    )
    return live.aggregate(all=Sum(F("instances") * F("gpus")))["all"] or 0
