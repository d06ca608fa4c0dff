"""The cluster that the pictures of the docs show: three teams, eight servers, jobs in every state, a month behind it.

Run as `python -m tests.e2e.browser.scene people|past` in the environment of a stack. `people` makes teams, accounts and
quotas and prints {user: token}; `past` moves what runs back in time, writes what a month would have left (usage, GPUs
over time, curves of the first task's GPUs), and estimates when the waiting jobs start.
"""

import json
import math
import random
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import django

from nodes.agent.hardware.gpus.simulated import COUNTING

TEAMS: dict[str, dict[str, Any]] = {
    "research": {"lead": "alice", "members": ("bob", "mei"), "quota": {"A100-80GB": 24, "H100-80GB": 8}},
    "vision": {"lead": "carol", "members": ("jonas",), "quota": {"A100-80GB": 16}},
    "speech": {"lead": "priya", "members": ("tomas",), "quota": {"A100-80GB": 8, "H100-80GB": 8}},
}
WORDS = {"research": "Language models", "vision": "Images and video", "speech": "Recognition and synthesis"}
HOURS = {"llama-finetune": 9.4, "whisper-large": 26, "segment-sam": 5.2, "detr-r50": 3.1}
OTHER_HOURS = 1.7
DAY_MS = 86_400_000
SEED = 11


def people(now: datetime) -> dict[str, str]:
    from portal.accounts.models import Scope, User
    from portal.accounts.services import token_create, user_create
    from portal.hardware.models import CellType
    from portal.teams.models import VirtualCluster
    from portal.teams.services.quotas import quota_set
    from portal.teams.services.teams import member_set, vc_create
    from tests.support.cluster.seed import PASSWORD

    tokens = {}
    for team, shape in TEAMS.items():
        vc = VirtualCluster.objects.filter(name=team).first() or vc_create(name=team, host_network=True, now=now)
        VirtualCluster.objects.filter(pk=vc.pk).update(description=WORDS[team])
        for name in (shape["lead"], *shape["members"]):
            user = User.objects.filter(username=name).first() or user_create(username=name, password=PASSWORD)
            role = "lead" if name == shape["lead"] else "member"
            member_set(vc=vc, user=user, role=role, now=now)
            token = token_create(user=user, name="scene", scope=Scope.ADMIN, now=now, expires_at=None)
            tokens[name] = token.secret
    for quotas in ({}, TEAMS):  # what there is is taken back before it is given to others
        for team in TEAMS:
            for cell_type in CellType.objects.filter(child__isnull=True):
                count = TEAMS[team]["quota"].get(cell_type.name, 0) if quotas else 0
                quota_set(vc=VirtualCluster.objects.get(name=team), cell_type=cell_type, count=count, now=now)
    return tokens


def past(now: datetime) -> None:
    from django.conf import settings

    from portal.forecast.estimates import starts_estimate

    rng = random.Random(SEED)
    _move_back()
    _usage(now, rng)
    _counts(now, rng)
    _curves(now, rng, settings.METRICS_DIR)
    starts_estimate(now=now, seconds=10)


def _move_back() -> None:
    from django.db.models import F

    from portal.jobs.models import Allocation, Job, JobAttempt, TaskAttempt

    for job in Job.objects.all():
        span = timedelta(hours=HOURS.get(job.name, OTHER_HOURS + job.pk % 5 / 7))
        Job.objects.filter(pk=job.pk).update(
            submitted_at=F("submitted_at") - span, started_at=F("started_at") - span, ended_at=F("ended_at") - span / 2
        )
        attempts = JobAttempt.objects.filter(job=job)
        attempts.update(created_at=F("created_at") - span, started_at=F("started_at") - span)
        attempts.update(ended_at=F("ended_at") - span / 2)
        tasks = TaskAttempt.objects.filter(job_attempt__job=job)
        tasks.update(created_at=F("created_at") - span, started_at=F("started_at") - span)
        tasks.update(ended_at=F("ended_at") - span / 2)
        held = Allocation.objects.filter(task_attempt__in=tasks, released_at__isnull=True)
        held.update(since=F("since") - span, created_at=F("created_at") - span)


def _usage(now: datetime, rng: random.Random) -> None:
    from portal.accounts.models import User
    from portal.hardware.models import Sku
    from portal.teams.models import VirtualCluster
    from portal.usage.models import UsageDay, UsageProgress
    from portal.usage.services.progress import usage_progress

    skus = {sku.name: sku for sku in Sku.objects.all()}
    rows = []
    for back in range(1, 61):
        day = (now - timedelta(days=back)).date()
        busy = 0.45 if day.weekday() > 4 else 0.85
        for team, shape in TEAMS.items():
            vc, names = VirtualCluster.objects.get(name=team), (shape["lead"], *shape["members"])
            for place, name in enumerate(names):
                user = User.objects.get(username=name)
                for sku, count in shape["quota"].items():
                    held = int(count / len(names) * (1.2 - place / 4) * busy * rng.uniform(0.7, 1.1) * DAY_MS)
                    lent, used = int(held * rng.uniform(0, 0.2)), rng.uniform(0.6, 0.92)
                    measured = int((held + lent) * 0.99)
                    rows.append(UsageDay(
                        day=day, vc=vc, user=user, sku=skus[sku], guaranteed_ms=held, opportunistic_ms=lent,
                        measured_ms=measured, used_ms=int(measured * used),
                        idle_ms=int(measured * rng.uniform(0, 0.07)), wasted_ms=int(lent * rng.uniform(0, 0.1)),
                    ))  # fmt: skip
    usage_progress(now=now)
    UsageProgress.objects.update(rolled_to=now.date())
    UsageDay.objects.all().delete()
    UsageDay.objects.bulk_create(rows)


def _counts(now: datetime, rng: random.Random) -> None:
    from portal.hardware.models import Gpu, GpuCount, Sku

    rows = []
    for sku in Sku.objects.all():
        there = Gpu.objects.filter(cell_type__sku=sku).count()
        for back in range(1, 24 * 12):
            wave = 0.74 + 0.16 * math.sin(back / 42) + rng.uniform(-0.03, 0.03)
            held, lent = int(there * wave * 0.85), int(there * wave * 0.12)
            sick = 1 if there > 16 and 60 < back < 130 else 0
            free = max(0, there - held - lent - sick)
            at = now.replace(second=0, microsecond=0) - timedelta(minutes=5 * back)
            rows.append(GpuCount(at=at, sku=sku, held=held, lent=lent, free=free, out=0, sick=sick))
    GpuCount.objects.bulk_create(rows, ignore_conflicts=True)


def _curves(now: datetime, rng: random.Random, folder: Any) -> None:
    from portal.jobs.models import Allocation, TaskAttempt
    from portal.metrics.record import Records
    from portal.usage.models import Measured

    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for run in TaskAttempt.objects.filter(ended_at__isnull=True):
        held_now = Allocation.objects.filter(task_attempt=run, released_at__isnull=True).order_by("leaf__uuid")
        models = list(held_now.values_list("leaf__model", flat=True))
        assert run.started_at
        held = int((now - max(run.started_at, midnight)).total_seconds() * 1000) * len(models)
        sums = {"measured_ms": held, "used_ms": int(held * 0.82), "idle_ms": held // 40}
        Measured.objects.update_or_create(task_attempt=run, day=now.date(), defaults=sums)
        points = list(_points(run.started_at, now - timedelta(minutes=3), models, rng))
        Records(folder).add(str(run.pk), points, age_s=0)


def _points(began: datetime, until: datetime, models: list[str], rng: random.Random) -> Iterator[Any]:
    """A point each two minutes: a start, epochs of an hour with a pause for the evaluation at the end of each."""
    from portal.metrics.points import Point

    first, step = int(began.timestamp()), 120
    gpus = [(COUNTING.match(model) is not None, rng.uniform(0, 6)) for model in models]
    for at in range(first, int(until.timestamp()), step):
        resting = (at - first) % 3600 > 3300
        bands: list[tuple[float, float, float] | None] = [
            _band(13_600 if not resting else 4_200, rng),
            _band(3_500, rng),
            ((at - first) * 2.4,) * 3,
            _band(417 if not resting else 1_300, rng),
        ]
        for counts, phase in gpus:
            load = (31 if resting else 82) + 5 * math.sin(at / 700 + phase)
            filled = min(1.0, (at - first + 300) / 900)
            for value in (load, 61_000 * filled, 60 + load * 3, 31 + load * 0.4):
                bands.append(_band(value, rng))
            bands += [_band(load * part, rng) if counts else None for part in (0.8, 0.4, 0.5, 0.6)]
            bands.append(_band(load, rng))
        yield Point(at, step, step // 5, bands)


def _band(value: float, rng: random.Random) -> tuple[float, float, float]:
    mean = round(value * rng.uniform(0.98, 1.02), 1)
    return mean, round(mean * 0.94, 1), round(mean * 1.03, 1)


def main() -> None:
    django.setup()
    from django.utils import timezone

    from tests.support.cluster.seed import quick_passwords

    quick_passwords()
    if sys.argv[1] == "people":
        print(json.dumps(people(timezone.now())))
    else:
        past(timezone.now())


if __name__ == "__main__":
    main()
