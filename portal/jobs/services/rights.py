"""Rights that a job needs: its priority class, the caps of its virtual cluster, exemption from preemption."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import F, Sum

from portal.accounts.models import User
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass, priority_name
from portal.job_file.fit import limit_problems
from portal.job_file.model import JobSpec
from portal.job_file.problems import Problem
from portal.jobs.models import TaskRole
from portal.jobs.selectors.facts import cluster_facts
from portal.jobs.states import JOB_LIVE
from portal.teams.models import FirmRight, VirtualCluster
from portal.teams.selectors.rights import firm_rights, highest_class

CLASS = "extras.hivedScheduler.jobPriorityClass"
FIRM = "extras.berth.preemptible"


def right_problems(*, spec: JobSpec, user: User, by: User, now: datetime) -> Iterator[Problem]:
    """Why the user may not submit this to its virtual cluster, though the cluster could run it; ``by`` sets its
    class."""
    yield from _class_problems(spec, by)
    if spec.berth.preemptible is False:
        yield from _firm_problems(spec, VirtualCluster.objects.get(name=spec.vc), user, now)


def class_problems(*, spec: JobSpec, by: User) -> Iterator[Problem]:
    """Why ``by`` may not give a job of this virtual cluster its class, or why it could never start in it."""
    yield from _class_problems(spec, by)
    vc = VirtualCluster.objects.get(name=spec.vc)
    yield from limit_problems(spec, cluster_facts(user=by, also=vc))


def _class_problems(spec: JobSpec, user: User) -> Iterator[Problem]:
    vc = VirtualCluster.objects.get(name=spec.vc)
    highest = highest_class(user=user, vc=vc)
    if spec.priority > PRIORITY_CLASSES[highest]:
        message = (
            f"{_class_words(spec.priority_class)} is above {_class_words(highest)}, the highest priority class that "
            f"you may use in {vc.name}"
        )
        yield Problem(CLASS, message, "class_too_high")


def _class_words(name: PriorityClass) -> str:
    """The class as the form and as the file call it."""
    return f"{priority_name(PRIORITY_CLASSES[name])} ({name})"


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
    """GPUs of the user's live jobs in the VC that asked never to be preempted."""
    live = TaskRole.objects.filter(
        job__vc=vc, job__user=user, job__state__in=JOB_LIVE, job__spec__berth__preemptible=False
    )
    return live.aggregate(all=Sum(F("instances") * F("gpus")))["all"] or 0
