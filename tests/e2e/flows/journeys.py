"""What a person does with Berth, the same on every database and runtime: inherited by the tests of each stack."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from nodes.protocol.logs import MARK
from tests.support.people.person import Person
from tests.support.run.waiting import wait_until

LINES = 10_000
COUNT = f'i=0; while [ $i -lt {LINES} ]; do echo "line $i of $BERTH_TASK_RANK"; i=$((i+1)); done'
TRAINER = "sh -c 'trap \"echo saved; exit 0\" TERM; echo training; while :; do sleep 0.1; done'"

STEPS = """i=0; while :; do
  i=$((i + 1))
  if [ "$BERTH_TASK_INDEX" = 0 ]; then echo "step $i, loss 0.5"
  else echo "$((i + 1000)) $(date +%s)000" >"$BERTH_STEPS"; fi
  sleep 0.5
done"""
"""A training of two tasks: the first says its steps in the log, the second in the file."""


def written(message: dict[str, Any]) -> str:
    """What the task itself wrote of a websocket's records."""
    return "".join(text for _, stream, text in message["records"] if stream != MARK)


def steps_of(user: Person, job: int, index: int) -> tuple[float, float] | None:
    """The newest step of a task and the ms that one takes, once both are known."""
    curves = {one.metric: one.max for one in user.berth.jobs.metrics(job, index=index).series}
    told = [curves.get(metric, [None])[-1] for metric in ("step", "step_time")]
    return (told[0], told[1]) if told[0] is not None and told[1] is not None else None


class Journeys:
    """`user` owns half of the cluster's GPUs."""

    @pytest.fixture
    def all_gpus(self, user: Person) -> int:
        """As many GPUs as the user's virtual cluster has."""
        (share,) = user.get(f"/virtual-clusters/{user.vc}")["gpus"]
        return int(share["quota"])

    @pytest.fixture(autouse=True)
    def _ended(self, user: Person) -> Iterator[None]:
        yield
        user.clear()

    def test_a_training_tells_its_steps_by_log_or_by_file(self, user: Person) -> None:
        job = user.run(STEPS, instances=2, name="steps", berth={"steps": r"step (\d+)", "gracePeriod": "1s"})
        user.wait(job, "running")
        tasks = [wait_until(partial(steps_of, user, job, index), "the time of a step") for index in (0, 1)]
        user.stop(job)
        user.wait(job, "stopped")
        for (step, step_ms), first in zip(tasks, (1, 1001), strict=True):
            assert first < step < first + 200
            assert 300 < step_ms < 5000

    def test_a_gang_waits_behind_a_job_starts_when_that_is_stopped_and_shows_every_line(
        self, user: Person, all_gpus: int
    ) -> None:
        first = user.run(TRAINER, gpu=all_gpus, name="first")
        user.wait_line(first, "training")
        gang = user.run(COUNT, instances=2, gpu=1, name="gang")
        waiting = user.wait_for(gang, lambda job: job["waiting"] and job["waiting"]["place"])["waiting"]
        assert (waiting["code"], waiting["place"]) == ("quota", 1)
        assert f"holds {all_gpus} of its {all_gpus}" in waiting["message"]
        assert user.task_attempts(first)[0]["state"] == "running"

        user.stop(first)
        stopped = user.wait(first, "stopped")
        assert stopped["end_message"] == f"Stopped by {user.name}."
        assert "saved" in user.log_lines(first), "SIGTERM reached the trainer itself"
        assert user.task_attempts(first)[0]["stop_reason"] == "user"

        user.wait(gang, "starting", "running", "succeeded")
        for rank, task in enumerate(user.task_attempts(gang)):
            expected = [f"line {number} of {rank}" for number in range(LINES)]
            assert user.log_to_its_end(task["id"]).splitlines() == expected
            assert user.log_lines(gang, rank) == expected
        user.wait(gang, "succeeded")

    def test_a_log_is_read_on_from_any_offset_without_a_gap(self, user: Person) -> None:
        job = user.run("i=0; while [ $i -lt 40 ]; do echo line $i; sleep 0.05; i=$((i+1)); done")
        user.wait(job, "running")
        (task,) = user.task_attempts(job)
        seen, offset = "", 0
        with user.log_socket(task["id"]) as socket:
            while "line 5\n" not in seen:
                message = json.loads(socket.recv(timeout=30))
                seen, offset = seen + written(message), message["to"]
        seen += "".join(user.log_pieces(task["id"], offset, marks=False))
        assert seen.splitlines() == [f"line {number}" for number in range(40)]

    def test_a_failing_job_says_its_cause_and_shows_its_last_words(self, user: Person) -> None:
        job = user.run("echo reading", "echo 'no such data set' >&2", "exit 3", "echo never")
        failed = user.wait(job, "failed")
        assert (failed["end_reason"], failed["exit_code"]) == ("failed", 3)
        assert "worker/0" in failed["end_message"]
        assert "exit status 3" in failed["end_message"]
        assert set(user.log_lines(job)) == {"reading", "no such data set"}, "two pipes: their order is the Engine's"

    def test_a_trainer_that_ignores_the_stop_is_killed_after_its_grace(self, user: Person) -> None:
        job = user.run("trap '' TERM; echo deaf; while :; do sleep 0.1; done", berth={"gracePeriod": 1}, name="deaf")
        user.wait_line(job, "deaf")
        user.stop(job)
        user.wait(job, "stopped", deadline_s=20)
        (task,) = user.task_attempts(job)
        assert (task["cause"], task["exit_code"]) == ("stopped", 137)

    def test_the_job_folder_is_one_for_all_tasks_and_attempts(self, user: Person) -> None:
        job = user.run(
            'touch "$BERTH_JOB_DIR/$BERTH_JOB_ATTEMPT-$BERTH_TASK_INDEX"',
            'while [ "$(ls "$BERTH_JOB_DIR" | grep -c "^$BERTH_JOB_ATTEMPT-")" -lt 2 ]; do sleep 0.1; done',
            '[ "$BERTH_JOB_ATTEMPT" = 2 ]',
            'ls "$BERTH_JOB_DIR"',
            instances=2,
            completion={"minSucceededInstances": 2},
            jobRetryCount=1,
        )
        done = user.wait(job, "succeeded")
        assert done["retries"] == 1
        assert [attempt["end_reason"] for attempt in user.attempts(job)] == ["succeeded", "failed"]
        assert set(user.log_lines(job)) >= {"2-0", "2-1"}
        assert set(user.log_lines(job)) & {"1-0", "1-1"}

    def test_an_open_page_hears_of_each_step(self, user: Person) -> None:
        with user.socket("/ws/events") as socket:
            job = user.run("true")
            user.wait(job, "succeeded")
            heard = []
            while "succeeded" not in heard:
                message = json.loads(socket.recv(timeout=10))
                if message["kind"] == "job" and message["id"] == job:
                    heard.append(user.job(job)["state"])
        codes = [event["code"] for event in user.events(job)]
        assert codes[0] == "submitted"
        assert codes[-1] == "succeeded"
        assert codes.index("placed") < codes.index("task_terminated") < codes.index("attempt_ended")
