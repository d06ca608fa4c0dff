"""A GPU turns sick under a job: from what NVIDIA's library says, through the agent's reading and the portal's fence, to
the job elsewhere and the GPU put back by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from django.utils import timezone

from nodes.agent.hardware.gpus.foreign import ForeignWatch
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.accounts.models import AuditEntry, ClusterRole
from portal.hardware.models import Gpu, NodeEvent
from portal.jobs.models import Job
from portal.jobs.states import JobState
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.gpu.machine import Machine
from tests.support.people.cast import Api, person
from tests.support.run.waiting import wait_until
from tests.unit.nodes.hardware.conftest import machine as machine
from tests.unit.nodes.hardware.conftest import made_machine as made_machine

Sicken = Callable[[Machine], None]


@dataclass
class Watched:
    """A node that reports what an agent reads of a machine's GPUs; beside it another one with room."""

    world: World
    machine: Machine
    backend: NvmlBackend
    node: ScriptedNode
    admin: Api
    own: int | None = None
    foreign: ForeignWatch | None = None
    clock: float = 0.0

    def look(self) -> None:
        """What the sampler of an agent does, and a report."""
        assert self.foreign
        self.clock += 20
        self.foreign.note(self.backend.sample(lambda pid: "ours" if pid == self.own else None), self.clock)
        gpus = self.foreign.mark(self.backend.inventory())
        self.node.inventory = replace(self.node.inventory, gpus=gpus, simulated=False)
        self.node.report()

    def look_until_fenced(self) -> None:
        def fenced() -> bool:
            self.look()
            return self.fault != ""

        wait_until(fenced, "the fence")

    @property
    def fault(self) -> str:
        return Gpu.objects.get(node__name="gpu01", index=0).fault

    def alerts(self) -> dict[str, str]:
        return {one["code"]: one["message"] for one in self.admin.get("alerts") if one["name"].startswith("gpu01")}


@pytest.fixture
def watched(world: World, machine: Machine) -> Iterator[Watched]:
    backend = NvmlBackend()
    node = ScriptedNode("gpu01", gpus=0)
    admin = Api(person("root", ClusterRole.ADMIN))
    made = Watched(world, machine, backend, node, admin, foreign=ForeignWatch(after_s=30))
    world.nodes["gpu01"] = node
    made.look()
    world.node("gpu02", gpus=2, model="NVIDIA H200")
    yield made
    backend.close()


def started_on_first(watched: Watched, **changes: object) -> Job:
    """A job of one GPU that runs on the machine's first one."""
    job = watched.world.submit(**changes)
    watched.world.settle()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    held = Gpu.objects.get(allocations__task_attempt__task__job=job, allocations__released_at__isnull=True)
    if (held.node.name, held.index) != ("gpu01", 0):
        return started_on_first(watched, **{**changes, "name": f"{changes.get('name', 'train')}x"})
    return job


def where(job: Job) -> str:
    rows = job.tasks.get().attempts.order_by("-number").values_list("node__name", flat=True)
    return str(rows[0])


KINDS: dict[str, tuple[Sicken, str, str]] = {
    "hardware Xid": (lambda m: m.raise_xid(0, 79), "hardware error Xid 79", "gpu_faulty"),
    "uncorrectable ECC": (lambda m: setattr(m.gpu(0), "ecc_uncorr", 3), "3 uncorrectable memory errors", "gpu_faulty"),
    "row remap pending": (lambda m: m.gpu(0).remap.__setitem__(2, 1), "a memory row waits", "gpu_faulty"),
    "row remap failed": (lambda m: m.gpu(0).remap.__setitem__(3, 1), "this GPU is worn out", "gpu_faulty"),
    "the driver's verdict": (lambda m: setattr(m.gpu(0), "recovery", 1), "asks for a reset", "gpu_faulty"),
    "lost": (lambda m: setattr(m.gpu(0), "lost", 1), "the GPU is lost", "gpu_faulty"),
    "foreign process": (lambda m: m.run_process(0, 1, 900), "a process that no job started", "gpu_foreign_process"),
    "MIG mode": (lambda m: setattr(m.gpu(0), "mig", 1), "nvidia-smi -i 0 -mig 0 switches it off", "gpu_mig"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_sick_gpu_is_fenced_its_job_goes_elsewhere_and_it_comes_back_by_hand(watched: Watched, kind: str) -> None:
    sicken, words, code = KINDS[kind]
    job = started_on_first(watched)
    sicken(watched.machine)
    watched.look_until_fenced()
    assert words in watched.fault
    assert words in watched.alerts()[code]

    watched.world.settle()
    watched.world.settle()
    job.refresh_from_db()
    ended = job.attempts.get(number=1)
    assert (ended.end_reason, job.retries_counted) == ("node_fault", 0)
    assert words in ended.end_message
    Job.objects.filter(pk=job.pk).update(not_before=None)
    watched.world.settle()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    held = Gpu.objects.get(allocations__task_attempt__task__job=job, allocations__released_at__isnull=True)
    assert (held.node.name, held.index) != ("gpu01", 0)

    assert watched.admin.call("POST", "nodes/gpu01/put-back", {"reason": ""}).status_code == 400
    answer = watched.admin.call("POST", "nodes/gpu01/put-back", {"reason": "reset and tested"})
    assert answer.status_code == 200, answer.content
    assert [one["usable"] for one in answer.json()["gpus"]] == [True, True]
    watched.look()  # what the node still says is no news
    assert watched.fault == ""
    entry = AuditEntry.objects.get(action="node.put_back")
    assert (entry.actor, entry.target, entry.after) == ("root", "gpu01", {"reason": "reset and tested"})
    assert NodeEvent.objects.get(code="put_back").message == "GPU 0 of gpu01 put back: reset and tested"
    assert watched.admin.call("POST", "nodes/gpu01/put-back", {"reason": "again"}).status_code == 409


def test_what_a_program_causes_fences_nothing(watched: Watched) -> None:
    for xid in (13, 31, 43, 45, 68, 109):
        watched.machine.raise_xid(0, xid)
    watched.machine.raise_xid(1, 48)
    wait_until(lambda: not watched.backend.inventory()[1].healthy, "the last error")
    watched.look()
    faults = Gpu.objects.filter(node__name="gpu01").order_by("index").values_list("fault", flat=True)
    assert list(faults) == ["", "the node says: hardware error Xid 48"]


def test_a_fence_outlives_what_put_it_up_and_something_new_fences_again(watched: Watched) -> None:
    watched.machine.gpu(0).lost = 1
    watched.look()
    watched.machine.gpu(0).lost = 0
    watched.look()
    assert "the GPU is lost" in watched.fault
    assert Gpu.objects.get(node__name="gpu01", index=0).told == ""
    assert "finds nothing wrong any more" in NodeEvent.objects.filter(code="gpu_changed").latest("id").message

    uuid = Gpu.objects.get(node__name="gpu01", index=0).uuid
    assert watched.admin.call("POST", "nodes/gpu01/put-back", {"gpus": ["GPU-x"], "reason": "?"}).status_code == 404
    body = {"gpus": [uuid], "reason": "a loose cable"}
    assert watched.admin.call("POST", "nodes/gpu01/put-back", body).status_code == 200
    watched.look()
    assert watched.fault == ""
    watched.machine.gpu(0).lost = 1
    watched.look()
    assert "the GPU is lost" in watched.fault


def test_what_was_put_back_in_spite_of_a_sign_is_fenced_by_the_next_one(watched: Watched) -> None:
    watched.machine.gpu(0).ecc_uncorr = 1
    watched.look()
    watched.admin.call("POST", "nodes/gpu01/put-back", {"reason": "one is no matter"})
    watched.look()
    assert watched.fault == ""
    watched.machine.gpu(0).ecc_uncorr = 2
    watched.look()
    assert "2 uncorrectable" in watched.fault


def test_a_foreign_process_is_told_after_a_while_and_its_end_frees_the_gpu(watched: Watched) -> None:
    watched.own = 4711
    watched.machine.run_process(0, 4711, 10)
    watched.machine.run_process(1, 1, 10)
    watched.look()
    faults = Gpu.objects.filter(node__name="gpu01").order_by("index")
    assert [gpu.fault for gpu in faults] == ["", ""]
    assert watched.alerts() == {}
    watched.look()
    watched.look()
    assert [bool(gpu.fault) for gpu in faults.all()] == [False, True]
    told = watched.alerts()
    assert told.keys() == {"gpu_foreign_process"}, "it is used, and not broken"
    assert told["gpu_foreign_process"].startswith("GPU 1: a process that no job started uses it: 1 (")
    watched.machine.gpu(1).nproc = 0
    watched.look()
    assert [gpu.fault for gpu in faults.all()] == ["", ""]
    assert watched.alerts() == {}


def test_a_foreign_process_takes_no_fence_of_the_hardware_with_it(watched: Watched) -> None:
    watched.machine.gpu(0).lost = 1
    watched.look()
    watched.machine.gpu(0).lost = 0
    watched.look()
    watched.machine.run_process(0, 1, 10)
    for _ in range(3):
        watched.look()
    told = Gpu.objects.get(node__name="gpu01", index=0).told
    assert ("a process that no job started" in told, "the GPU is lost" in watched.fault) == (True, True)
    watched.machine.gpu(0).nproc = 0
    watched.look()
    assert "the GPU is lost" in watched.fault


def test_a_fault_of_the_hardware_outlives_the_foreign_process_that_was_there_before(watched: Watched) -> None:
    watched.machine.run_process(0, 1, 10)
    watched.look_until_fenced()
    watched.machine.gpu(0).lost = 1
    watched.look()
    assert "the GPU is lost" in watched.fault
    watched.machine.gpu(0).lost = watched.machine.gpu(0).nproc = 0
    watched.look()
    assert "the GPU is lost" in watched.fault


def test_who_puts_back_a_gpu_after_a_fault_does_not_put_it_under_a_foreign_process(watched: Watched) -> None:
    watched.machine.gpu(0).lost = 1
    watched.look()
    watched.machine.gpu(0).lost = 0
    watched.machine.run_process(0, 1, 10)
    for _ in range(3):
        watched.look()
    assert watched.admin.call("POST", "nodes/gpu01/put-back", {"reason": "reset and tested"}).status_code == 200
    assert "a process that no job started" in watched.fault
    watched.machine.gpu(0).nproc = 0
    watched.look()
    assert watched.fault == ""


def test_a_gpu_in_mig_mode_comes_back_by_itself_when_that_is_off(watched: Watched) -> None:
    watched.machine.gpu(0).mig = 1
    watched.look()
    assert "it is in MIG mode" in watched.fault
    watched.machine.run_process(0, 1, 10)
    for _ in range(3):
        watched.look()
    assert "it is in MIG mode" in watched.fault
    watched.machine.gpu(0).mig = 0
    watched.look()
    assert "a process that no job started" in watched.fault
    watched.machine.gpu(0).nproc = 0
    watched.look()
    assert (watched.fault, watched.alerts()) == ("", {})


def test_mig_mode_takes_no_fence_of_the_hardware_with_it(watched: Watched) -> None:
    watched.machine.gpu(0).lost = 1
    watched.look()
    watched.machine.gpu(0).lost, watched.machine.gpu(0).mig = 0, 1
    watched.look()
    assert "the GPU is lost" in watched.fault
    assert watched.admin.call("POST", "nodes/gpu01/put-back", {"reason": "reset and tested"}).status_code == 200
    assert "it is in MIG mode" in watched.fault
    watched.machine.gpu(0).mig = 0
    watched.look()
    assert watched.fault == ""


def test_tasks_of_a_job_that_is_no_gang_are_moved_one_by_one(watched: Watched) -> None:
    job = watched.world.submit(instances=3, gang=False)
    watched.world.settle()
    watched.machine.gpu(0).lost = 1
    watched.look()
    watched.world.settle()
    watched.world.settle()
    job.refresh_from_db()
    assert (job.state, job.attempts.count()) == (JobState.RUNNING, 1)
    assert sum(task.retries_counted for task in job.tasks.all()) == 0
    held = Gpu.objects.filter(allocations__task_attempt__task__job=job, allocations__released_at__isnull=True)
    assert len(held) == 3
    assert not [gpu for gpu in held if gpu.fault]


def test_a_program_that_fails_on_a_gpu_that_failed_uses_up_no_retry(watched: Watched) -> None:
    job = started_on_first(watched)
    (order,) = watched.node.desired().orders
    exit_ = Exit(cause=Cause.DEVICE_FAULT, code=1, message="GPU 0: hardware error Xid 79; it failed")
    watched.node.end(order, exit_)
    watched.node.report(now=timezone.now())
    watched.world.cycle()
    job.refresh_from_db()
    assert (job.state, job.retries_counted) == (JobState.WAITING, 0)
    assert "Xid 79" in job.attempts.get().end_message
