"""Preemption on real containers: a trainer in the middle of a script saves on SIGTERM and goes on elsewhere."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster.stack import Stack
from tests.support.images import images
from tests.support.people.person import Person, alice, carol
from tests.support.services.docker_engine import DockerEngine

TRAINER = """
import json, os, signal, sys, time
state = os.environ["BERTH_JOB_DIR"] + "/last.json"
step = json.load(open(state))["step"] if os.path.exists(state) else 0
print("begins at step", step, flush=True)

def save():
    with open(state + ".new", "w") as file:
        json.dump({"step": step}, file)
    os.replace(state + ".new", state)

def leave(number, frame):
    notice = json.load(open(os.environ["BERTH_NOTICE_FILE"]))
    print("told:", notice["reason"], notice["message"], flush=True)
    assert notice["deadline_unix"] > time.time() + 5
    for second in range(5):
        print("saving", second, flush=True)
        time.sleep(1)
    save()
    print("saved step", step, flush=True)
    sys.exit(0)

if step:
    print("done", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
while True:
    step += 1
    if step == 10:
        save()
        print("checkpoint", flush=True)
    time.sleep(0.1)
"""
SLEEP = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}
WHOLE = {"gpu": 4, "cpu": 1}


@pytest.fixture
def people(stack: Stack) -> Iterator[tuple[Person, Person, Person]]:
    """Alice and Bob of research, Carol of vision; each team owns as many GPUs as one node has."""
    everybody = (alice(stack), Person(stack, "bob", "research"), carol(stack))
    yield everybody
    for person in everybody:
        person.clear()


def test_a_preempted_trainer_saves_in_its_grace_and_goes_on_from_there_on_the_other_node(
    people: tuple[Person, Person, Person], running_docker: DockerEngine
) -> None:
    python = running_docker.ensure_image(images.PYTHON)
    first, second, other = people
    elsewhere = other.run(SLEEP, name="elsewhere", **WHOLE)
    other.wait_line(elsewhere, "up")
    script = ("echo before", f"cat >/tmp/train.py <<'END'\n{TRAINER}END\npython3 /tmp/train.py", "echo after")
    berth = {"gracePeriod": 60, "borrow": "auto", "checkpointFile": "last.json"}
    low = first.run(*script, name="low", image=python, berth=berth, **WHOLE)
    first.wait_line(low, "checkpoint")
    first.wait_for(low, lambda _: first.task_attempts(low)[0]["checkpoint_at"])
    submitted_at = first.job(low)["submitted_at"]

    high = second.run(SLEEP, name="high", extras=PROD, **WHOLE)
    waiting = second.wait_for(high, lambda job: job["waiting"] and job["waiting"]["code"] == "preempting")["waiting"]
    assert waiting["message"].startswith("4 GPUs of alice/low#1 are taken back for it by ")
    second.wait(high, "running")
    lines = first.log_lines(low)
    assert lines[:3] == ["before", "begins at step 0", "checkpoint"]
    assert "told: preempted Preempted by bob/high#1, which has a higher priority." in lines
    assert lines[-6:-1] == [f"saving {number}" for number in range(5)]
    saved = lines[-1]
    assert saved.startswith("saved step ")
    (task,) = first.task_attempts(low)
    node = task["node"]
    assert (task["stop_reason"], task["cause"]) == ("preempted", "stopped")
    assert first.wait(low, "waiting")["submitted_at"] == submitted_at
    assert preemptions(first, low) == [(True, 4, "bob/high#1")]
    assert preemptions(second, high) == [(False, 4, "alice/low#1")]

    other.stop(elsewhere)
    done = first.wait(low, "succeeded")
    again, earlier = first.attempts(low)
    assert (again["end_reason"], earlier["end_reason"]) == ("succeeded", "preempted")
    assert done["retries"] == 1, "with none of its own: jobRetryCount is 0"
    task, _ = first.tasks(low)[0]["attempts"]
    assert task["node"] != node
    assert first.log_lines(low) == ["before", f"begins at step {saved.split()[-1]}", "done", "after"]


def preemptions(person: Person, job: int) -> list[tuple[bool, int, Any]]:
    found = person.get(f"/jobs/{job}/preemptions")["results"]
    return [(one["lost"], one["gpus"], one["other"]["label"]) for one in found]
