"""An idle job from its warning to what was announced: real processes, real readings of (made-up) GPUs, a real browser,
and minutes that really pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.looking import looked_at
from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Agent, Stack
from tests.support.gpu.machine import Machine
from tests.support.people.person import Person, alice, carol
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

BUSY, IDLE = 93, 2
POLICY = {"percent": 10, "minutes": 1, "after_minutes": 1, "extensions": 1, "extension_minutes": 1}
WARNED_S = 240
"""Two minutes without work, each taken in a minute after it is over, on a machine that runs other tests as well."""


@pytest.fixture(scope="module")
def machine(services: Services) -> Machine:
    """A server's two GPUs, which have work."""
    made = Machine(services.new_folder("gpus"))
    for index in range(2):
        made.gpu(index).gpu_util = BUSY
    return made


@pytest.fixture(scope="module")
def served(
    services: Services,
    postgres: PostgresServer,
    running_docker: DockerEngine,
    machine: Machine,
) -> Iterator[Stack]:
    """A node whose agent reads these GPUs, and one whose GPUs always have work; the first minutes of a task count."""
    agents = [
        Agent(name="gpu01", gpus="nvml", ports="21000-21499", env=tuple(machine.env.items())),
        Agent(name="gpu02", gpus="simulated:2xA100-80GB", ports="21500-21999"),
    ]
    url = postgres_copy(postgres, "stack_idle")
    start = {"BERTH_IDLE_START_MINUTES": "0"}
    made = Stack(services, database_url=url, docker_url=running_docker.url, agents=agents, env=start)
    with closing(made):
        made.start()
        yield made
    running_docker.remove_containers()


@pytest.fixture(scope="module")
def user(served: Stack) -> Person:
    return alice(served)


def of_sku(name: str) -> dict[str, object]:
    """Asks for GPUs of this kind."""
    return {"hivedScheduler": {"taskRoles": {"worker": {"skuType": name}}}}


def rest(machine: Machine, person: Person, job: int) -> None:
    """The GPUs of this job do next to nothing from now on."""
    held = {gpu["uuid"] for gpu in person.get("/gpus")["results"] if gpu["holder"] and gpu["holder"]["job"] == job}
    assert held
    for index in range(2):
        if machine.gpu(index).uuid.decode() in held:
            machine.gpu(index).gpu_util = IDLE


def codes(person: Person, job: int) -> list[str]:
    """What happened to the job, the first first."""
    return [event["code"] for event in person.events(job)]


def test_idle_jobs_are_warned_put_off_and_then_stopped_or_lent_out_while_a_busy_one_goes_on(
    page: Page, served: Stack, user: Person, machine: Machine
) -> None:
    root, other = served.client("root"), carol(served)
    for vc, action in (("research", "stop"), ("vision", "opportunistic")):
        done = root.patch(f"/virtual-clusters/{vc}/idle-policy", json={**POLICY, "action": action})
        assert done.is_success, done.text
    notebook, trainer, lab = (
        person.run("while :; do sleep 1; done", name=name, extras=of_sku(sku))
        for person, name, sku in ((user, "notebook", "H200"), (user, "trainer", "A100-80GB"), (other, "lab", "H200"))
    )
    for person, job in ((user, notebook), (user, trainer), (other, lab)):
        person.wait(job, "running")
    rest(machine, user, notebook)
    rest(machine, other, lab)

    site = Site(page, served)
    site.sign_in("alice", f"/jobs/{notebook}")
    warning = page.get_by_role("region", name="Idle GPUs")
    expect(warning).to_contain_text("Its GPU is below 10 %. It is stopped in", timeout=WARNED_S * 1000)
    countdown = warning.locator("[data-until]")
    first = countdown.inner_text()
    expect(countdown).not_to_have_text(first)
    assert looked_at(page, "idle-warning") == []
    due = countdown.get_attribute("data-until")
    warning.get_by_role("button", name="Give it 1 minute more").click()
    expect(warning).to_contain_text("It was put off as often as the policy allows.")
    expect(countdown).not_to_have_attribute("data-until", due or "")
    assert user.job(notebook)["state"] == "running"

    other.wait_for(lab, lambda job: job["priority"] < 0, deadline_s=WARNED_S)
    assert codes(other, lab)[-2:] == ["idle_warned", "idle_opportunistic"]
    user.wait(notebook, "stopped", deadline_s=WARNED_S)
    site.expect_state("Stopped")
    ended = page.get_by_role("region", name="How it ended")
    expect(ended).to_contain_text("Stopped: its 1 GPU was below 10 % for")
    expect(ended).to_contain_text("policy of virtual cluster research; warned at")
    assert [code for code in codes(user, notebook) if code.startswith("idle")] == ["idle_warned", "idle_extended"]
    for person, job in ((user, trainer), (other, lab)):
        assert person.job(job)["state"] == "running"
    assert not [code for code in codes(user, trainer) if code.startswith("idle")]
