"""What the engine is told of jobs, tasks, claims and reservations."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from nodes.protocol.states import ContainerState
from portal.accounts.models import User
from portal.hardware.models import Gpu
from portal.jobs.models import Claim, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.queue.services.order import Place, job_place
from portal.scheduler.reservations import reservations_read, reservations_write
from portal.storages.models import Storage
from scheduling import Borrow, Engine, RunningTask
from tests.integration.scheduler.plans import PROD, carry_out, engine_job, obey, preempt, read, running, submitted
from tests.support.cluster.scripted_node import DIGEST, ScriptedNode
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

Teams = dict[str, User]


def told(world: World, saved_ms: int | None) -> RunningTask:
    """The engine's running task after its node has told of a checkpoint."""
    node = world.nodes["gpu01"]
    (order,) = node.desired().orders
    node.set(order, ContainerState.RUNNING, digest=DIGEST, checkpoint_ms=saved_ms)
    assert node.report()
    (job,) = read().snapshot.running
    return job.tasks[0]


def ms(moment: object) -> int:
    return int(moment.timestamp() * 1000)  # type: ignore[attr-defined]


def test_the_last_checkpoint_of_a_run_reaches_the_engine(world: World, teams: Teams) -> None:
    running(world, teams["alice"], {0: "gpu01/0"})
    assert told(world, None).checkpoint_ms is None
    earlier = TaskAttempt.objects.get().started_at - timedelta(hours=1)  # type: ignore[operator]
    assert told(world, ms(earlier)).checkpoint_ms is None, "an earlier run left it"
    assert told(world, ms(timezone.now() + timedelta(hours=1))).checkpoint_ms is None, "nothing is saved in advance"
    assert told(world, 1 << 52).checkpoint_ms is None
    TaskAttempt.objects.update(started_at=timezone.now() - timedelta(hours=2))
    saved = ms(timezone.now() - timedelta(minutes=7))
    assert told(world, saved).checkpoint_ms == saved
    assert told(world, saved - 60_000).checkpoint_ms == saved


def both_storages(world: World) -> ScriptedNode:
    node = world.nodes["gpu03"] = ScriptedNode("gpu03", gpus=2)
    node.inventory = replace(node.inventory, storages=("/mnt/jobs", "/mnt/data"))
    node.report()
    return node


def test_the_node_is_told_where_the_checkpoint_file_lies(world: World, teams: Teams) -> None:
    Storage.objects.create(name="jobs", root="/mnt/jobs", jobs=True, everyone=True, must_be_mount=False)
    Storage.objects.create(name="data", root="/mnt/data", everyone=True, must_be_mount=False)
    node = both_storages(world)
    files = {"model/last.pt": "/mnt/jobs/alice/train-1/model/last.pt", "/d/last.pt": "/mnt/data/alice/last.pt"}
    storages = [{"name": "data", "mountPath": "/d"}]
    for number, (name, there) in enumerate(files.items()):
        extras = {"storages": storages, "berth": {"checkpointFile": name}}
        running(world, teams["alice"], {0: f"gpu03/{number}"}, extras=extras)
        assert node.spec(node.desired().orders[number]).checkpoint == there


def test_the_node_is_told_how_the_job_tells_its_steps(world: World, teams: Teams) -> None:
    """By the file too, where the job's folder is one that the node can read."""
    running(world, teams["alice"], {0: "gpu01/0"}, extras={"berth": {"steps": r"step (\d+)"}})
    node = world.nodes["gpu01"]
    spec = node.spec(node.desired().orders[0])
    assert (spec.steps, spec.steps_file, spec.env.get("BERTH_STEPS")) == (r"step (\d+)", None, None)
    Storage.objects.create(name="jobs", root="/mnt/jobs", jobs=True, everyone=True, must_be_mount=False)
    node = both_storages(world)
    running(world, teams["alice"], {0: "gpu03/0"})
    spec = node.spec(node.desired().orders[0])
    assert (spec.steps, spec.steps_file) == ("", "/mnt/jobs/alice/train-2/.berth/steps.worker.0")
    assert spec.env["BERTH_STEPS"] == f"{spec.job_dir}/.berth/steps.worker.0"


def test_a_job_that_mounts_where_job_folders_lie_only_reads_there(world: World, teams: Teams) -> None:
    """Beside its next job's folder it could otherwise put a link, at the moment at which that is mounted."""
    Storage.objects.create(name="jobs", root="/mnt/jobs", jobs=True, everyone=True, must_be_mount=False)
    Storage.objects.create(name="data", root="/mnt/data", everyone=True, must_be_mount=False)
    node = both_storages(world)
    storages = [{"name": "jobs", "mountPath": "/all"}, {"name": "data", "mountPath": "/d"}]
    running(world, teams["alice"], {0: "gpu03/0"}, extras={"storages": storages})
    spec = node.spec(node.desired().orders[0])
    assert {one.target: one.read_only for one in spec.mounts} == {spec.job_dir: False, "/all": True, "/d": False}


def test_without_a_shared_job_folder_there_is_no_file_to_watch(world: World, teams: Teams) -> None:
    running(world, teams["alice"], {0: "gpu01/0"}, berth={"checkpointFile": "last.pt"})
    (order,) = world.nodes["gpu01"].desired().orders
    assert world.nodes["gpu01"].spec(order).checkpoint is None


def test_a_job_says_what_it_wants_within_the_administrators_caps(
    world: World, teams: Teams, settings: Settings
) -> None:
    settings.MAX_MIN_RUN_S, settings.MAX_GRACE_S, settings.DEFAULT_GRACE_S = 1800, 600, 30
    plain = submitted(world, teams["alice"], {0: "gpu01/0"})
    wishes = {"gracePeriod": "10m", "minRunTime": "30m", "borrow": "auto"}
    wishing = submitted(world, teams["alice"], {0: "gpu01/0"}, berth=wishes)
    settings.MAX_MIN_RUN_S, settings.MAX_GRACE_S = 60, 120
    loaded = read()
    one, other = engine_job(loaded, plain), engine_job(loaded, wishing)
    assert (one.grace_ms, one.min_run_ms, one.borrow) == (30_000, 0, Borrow.NEVER)
    assert (other.grace_ms, other.min_run_ms, other.borrow) == (120_000, 60_000, Borrow.AUTO)


def test_a_team_decides_whether_its_jobs_borrow_that_say_nothing(world: World, teams: Teams) -> None:
    silent = submitted(world, teams["alice"], {0: "gpu01/0"})
    never = submitted(world, teams["alice"], {0: "gpu01/0"}, berth={"borrow": "never"})
    world.vc.default_borrow = "auto"
    world.vc.save()
    loaded = read()
    assert [engine_job(loaded, job).borrow for job in (silent, never)] == [Borrow.AUTO, Borrow.NEVER]


def test_claims_on_a_gpu_that_is_not_there_any_more_are_given_up_with_all_of_the_job(
    world: World, teams: Teams
) -> None:
    places = {0: "gpu01/0", 1: "gpu02/0"}
    low = running(world, teams["alice"], places, name="low")
    high = submitted(world, teams["bob"], places, name="high", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, places, {low: (0, 1)})])
    obey(world)
    Gpu.objects.filter(node__name="gpu01", index=0).update(slot=None)
    loaded = read()
    assert loaded.snapshot.claims == ()
    carry_out(loaded)
    assert not Claim.objects.exists()


def test_the_plans_list_of_reservations_takes_the_place_of_the_one_it_was_made_from(world: World, teams: Teams) -> None:
    first, second = (submitted(world, teams["alice"], {0: "gpu01/0"}) for _ in range(2))
    stale = read()
    carry_out(read(), reservations=[str(first.pk), str(second.pk)])
    assert read().snapshot.reservations == (str(first.pk), str(second.pk))
    carry_out(stale, reservations=[str(second.pk)])
    assert read().snapshot.reservations == (str(first.pk), str(second.pk)), "made from an older list"
    carry_out(read(), reservations=[str(second.pk)])
    assert read().snapshot.reservations == (str(second.pk),)


def test_cells_are_kept_for_no_job_against_one_that_its_owner_moved_before_it(world: World, teams: Teams) -> None:
    first, second = (submitted(world, teams["alice"], {0: "gpu01/0"}) for _ in range(2))
    others = submitted(world, teams["bob"], {0: "gpu02/0"})
    kept = [str(first.pk), str(others.pk)]
    carry_out(read(), reservations=kept)
    assert order() == [*kept, str(second.pk)]
    job_place(job=second, to=Place(), actor=teams["alice"], now=timezone.now())
    assert order() == [str(others.pk), str(second.pk), str(first.pk)]


def order() -> list[str]:
    """The waiting jobs as their turns come."""
    plan = Engine.restore(read().snapshot).plan(ms(timezone.now()))
    return [*(one.job.id for one in plan.starts), *(one.job.id for one in plan.waits)]


def test_a_job_that_is_over_holds_no_reservation_and_an_unchanged_list_is_not_written(
    world: World, teams: Teams
) -> None:
    job = submitted(world, teams["alice"], {0: "gpu01/0"})
    carry_out(read(), reservations=[str(job.pk)])
    version = read().reserved.version
    carry_out(read(), reservations=[str(job.pk)])
    assert read().reserved.version == version
    job_stop(job=job, actor=teams["alice"], now=timezone.now())
    assert read().snapshot.reservations == ()
    assert reservations_write(jobs=[], read=reservations_read({}))
