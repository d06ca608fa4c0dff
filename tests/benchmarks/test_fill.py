"""The made-up cluster: what it has, that every page and address answers for it, that the scheduler can read it."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F, Sum
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ClusterRole, User
from portal.hardware.models import Gpu, Node
from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Preemption, Task, TaskAttempt
from portal.jobs.states import JOB_OVER
from portal.scheduler.snapshot import SNAPSHOTS
from portal.teams.models import VirtualCluster
from portal.usage.models import UsageDay, UsageProgress
from tests.benchmarks.api_calls import BASE, Reader, operations
from tests.benchmarks.fill import fill, main
from tests.benchmarks.filling.present import gpu_sizes
from tests.benchmarks.filling.sizes import NotFilled, Sizes
from tests.support.cluster.kept import Kept, kept_scene
from tests.support.cluster.world import World
from tests.support.people.cast import HOST, person
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)

ADDRESSES = 6
"""Of each operation, half of them with filters and orders; more are asked by `test_openapi.py`."""
SMALL = {"finished": 300, "waiting": 20, "running": 12, "users": 9, "vcs": 3, "nodes": 7, "days": 30}


def small(*, force: bool = False, **changes: int) -> None:
    fill(Sizes(**{**SMALL, **changes}), force=force)


kept = kept_scene(small)


@pytest.fixture
def filled(kept: Kept[None], transactional_db: None, redis_server: RedisServer) -> None:
    kept.again()


def test_so_much_is_there_as_was_asked_for(filled: None) -> None:
    jobs = Job.objects
    assert jobs.filter(state__in=JOB_OVER).count() == 300
    assert [jobs.filter(state=state).count() for state in ("running", "waiting")] == [12, 20]
    assert [User.objects.count(), VirtualCluster.objects.count(), Node.objects.count()] == [9, 3, 7]
    assert not jobs.filter(state="waiting", waiting_code="").exists(), "each knows why it waits"


def test_a_finished_job_left_nothing_behind_and_its_story_is_whole(filled: None) -> None:
    over = Job.objects.filter(state__in=JOB_OVER)
    assert not JobAttempt.objects.filter(job__in=over).exclude(state="ended").exists()
    assert not TaskAttempt.objects.filter(task__job__in=over, removed_at=None).exists()
    assert not Allocation.objects.filter(task_attempt__task__job__in=over, released_at=None).exists()
    assert not Task.objects.filter(job__in=over).exclude(state__in=["succeeded", "failed", "stopped"]).exists()
    assert Preemption.objects.filter(victim__end_reason="preempted").count() == Preemption.objects.count() > 0
    job = over.filter(state="succeeded", retries=0, tasks__index=0).exclude(tasks__index=1).first()
    assert job
    assert list(JobEvent.objects.filter(job=job).order_by("id").values_list("code", flat=True)) == [
        "submitted", "starting", "placed", "task_pulling", "task_prepared", "task_running", "attempt_running",
        "running", "ending_succeeded", "task_terminated", "attempt_ended", "succeeded",
    ]  # fmt: skip


def test_what_was_held_and_used_is_summed_up_for_every_day_that_is_over(filled: None) -> None:
    today = timezone.now().date()
    assert UsageProgress.objects.get().rolled_to >= today - timedelta(days=1)
    held = Sum(F("guaranteed_ms") + F("opportunistic_ms"))
    sums = UsageDay.objects.aggregate(held=held, measured=Sum("measured_ms"), used=Sum("used_ms"))
    assert 0 < sums["used"] < sums["measured"] < sums["held"]
    assert UsageDay.objects.filter(wasted_ms__gt=0).exists()
    assert UsageDay.objects.values("day").distinct().count() > 25


def test_jobs_can_be_stored_after_it(filled: None) -> None:
    first = Job.objects.order_by("id").first()
    assert first
    newest = Job.objects.order_by("-id").values_list("pk", flat=True)[0]
    columns = {field.attname: getattr(first, field.attname) for field in Job._meta.concrete_fields}
    made = Job.objects.create(**{**columns, "id": None, "run": 9999})
    assert made.pk > newest


def test_the_same_seed_makes_the_same_past() -> None:
    def past() -> list[Any]:
        rows = Job.objects.filter(state__in=JOB_OVER).order_by("id")
        return list(rows.values_list("user__username", "vc__name", "name", "run", "state", "end_message"))

    small(running=0, waiting=0)
    first = past()
    call_command("flush", interactive=False, verbosity=0)
    small(running=0, waiting=0)
    assert past() == first


def test_the_scheduler_reads_it(filled: None) -> None:
    snapshot = SNAPSHOTS.load(now=timezone.now()).snapshot
    assert (len(snapshot.running), len(snapshot.waiting)) == (12, 20)
    assert Allocation.objects.filter(released_at=None).count() == 3 * 16 <= Gpu.objects.count()


def test_every_address_and_page_answers_for_it(filled: None) -> None:
    document = Client(HTTP_HOST=HOST).get(f"{BASE}/openapi.json").json()
    Node.objects.update(storages=[])  # no server is behind them, and none is asked for files
    people = [person("root", ClusterRole.ADMIN), User.objects.get(username="filled-user0001")]
    for reader in (Reader("any", user) for user in people):
        headers = {"Authorization": f"Bearer {reader.token}"}
        for one in operations(document):
            for address in islice(reader.addresses(one), ADDRESSES):
                answer = Client(HTTP_HOST=HOST).get(address, headers=headers)
                answer.close()  # a download is under way until somebody has read it
                unheard = {503} if "/files" in one.path else set()  # no server is behind the nodes
                assert answer.status_code in {200, 403, 404} | unheard, (address, answer.content)
        client = Client(HTTP_HOST=HOST)
        client.force_login(reader.user)
        jobs = [f"/jobs/{job}" for job in reader.jobs[:10]]
        for page in ("/", "/jobs", "/queue", "/cluster", "/virtual-clusters/filled-team01", *jobs):
            assert client.get(page).status_code == 200, page


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"finished": -1}, "--finished must be at least 0, not -1"),
        ({"users": 2}, "--users 2 is too few"),
        ({"nodes": 0}, "--nodes must be at least 1"),
        ({"running": 3}, "--running 3 cannot fill the nodes"),
        ({"running": 0}, "--waiting needs --running"),
    ],
)
def test_numbers_that_make_no_cluster_are_refused_by_name(changes: dict[str, int], complaint: str) -> None:
    with pytest.raises(NotFilled, match=complaint):
        fill(Sizes(**{**SMALL, **changes}))
    assert not User.objects.exists()


def test_the_command_says_what_is_wrong_and_ends_with_1() -> None:
    with pytest.raises(SystemExit, match="--users 2 is too few"):
        main(["--users", "2"])


def test_a_database_with_jobs_is_left_alone_unless_one_insists() -> None:
    world = World()
    world.node("gpu01")
    world.submit()
    with pytest.raises(NotFilled, match="this database has 1 jobs"):
        small()
    assert Job.objects.count() == 1
    small(force=True)
    assert Job.objects.count() == 333
    with pytest.raises(NotFilled, match="are there already"):
        small(force=True)


@pytest.mark.parametrize(("jobs", "gpus"), [(12, 48), (32, 160), (4, 32), (5, 5)])
def test_sizes_of_running_jobs_fill_a_quota_exactly(jobs: int, gpus: int) -> None:
    sizes = list(gpu_sizes(jobs, gpus))
    assert (len(sizes), sum(sizes)) == (jobs, gpus)
