"""Schedulers that die at any statement, and schedulers that work at the same time: exact on every database."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.reliability.faults.cycles import Cycles, cycles
from tests.support.cluster.invariants import assert_all_is_well
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, alice, carol
from tests.support.run.waiting import wait_until

MANY = 20
KILLED = -9
FOR_EVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
POINTS = ("cycle.reconciled", "cycle.planned", "apply.begin", "apply.nodes", "apply.rows", "apply.committed")


class Taking:
    """Jobs of a higher priority that take the two GPUs of `low`, which always comes back; cycles are the test's."""

    def __init__(self, stack: Stack, person: Person, cycles: Cycles, low: int) -> None:
        self._stack, self._person, self._cycles, self._low = stack, person, cycles, low
        self._count = 0

    def submit(self) -> int:
        self._count += 1
        prod = {"hivedScheduler": {"jobPriorityClass": "prod"}}
        return self._person.run("true", gpu=2, name=f"high-{self._count}", extras=prod)

    def claims(self, job: int) -> int:
        return int(self._stack.sql("SELECT count(*) FROM jobs_claim WHERE claimant_id = %s", job)[0][0])

    def told_to_end(self) -> bool:
        rows = "SELECT state FROM jobs_jobattempt WHERE job_id = %s ORDER BY number DESC LIMIT 1"
        return bool(self._stack.sql(rows, self._low)[0][0] != "running")

    def wait_until_left(self) -> None:
        """Until nothing holds what is claimed; without a cycle."""
        held = """SELECT count(*) FROM jobs_claim c JOIN jobs_allocation a ON a.leaf_id = c.leaf_id
                  WHERE a.released_at IS NULL"""
        wait_until(lambda: self._stack.sql(held)[0][0] == 0, "the victim to be gone", deadline_s=30)

    def through(self, job: int) -> None:
        """Cycles until the job is over and `low` runs again."""
        wait_until(lambda: self._cycle() and self._state(job) == "succeeded", "the preemptor's end", deadline_s=60)
        self.cycles_until_running(self._low)

    def cycles_until_running(self, *jobs: int) -> None:
        wait_until(lambda: self._cycle() and {self._state(job) for job in jobs} == {"running"}, f"jobs {jobs} to run")

    def _cycle(self) -> bool:
        return self._cycles.run() == 0

    def _state(self, job: int) -> str:
        return str(self._stack.sql("SELECT state FROM jobs_job WHERE id = %s", job)[0][0])


class SchedulerFaults:
    """`stack` runs jobs as processes; two people own all its GPUs. At which statements a process is killed here is a
    sample: at each of them a scheduler dies, on both databases, in tests/integration/scheduler/test_overtaken.py."""

    @pytest.fixture
    def people(self, stack: Stack) -> tuple[Person, Person]:
        return alice(stack), carol(stack)

    @pytest.fixture
    def one_by_one(self, stack: Stack) -> Iterator[Cycles]:
        """The stack without its own scheduler: each cycle is the test's."""
        stack.kill9("scheduler")
        with cycles(stack.environment) as made:
            wait_until(lambda: made.run() == 0, "the killed scheduler's lease to run out", every_s=0.5)
            yield made
        stack.restart("scheduler")

    @pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.soak)], ids=["some", "every one"])
    def test_a_scheduler_killed_at_any_statement_of_apply_leaves_nothing_half_done(
        self, stack: Stack, people: tuple[Person, Person], one_by_one: Cycles, step: int
    ) -> None:
        """A job is met by one death after the other until one comes after it was placed; then the next job is."""
        jobs: list[int] = []
        statements = 0
        for point in (*POINTS, *(f"sql:apply:{number}" for number in range(1, 200, step))):
            if not jobs or not self._waits(stack, jobs[-1]):
                if jobs:
                    people[0].wait(jobs[-1], "succeeded")  # makes room
                jobs.append(people[0].run("true", instances=2, name=f"job-{len(jobs)}"))
            if one_by_one.run(point) != KILLED:
                break
            statements += point.startswith("sql:")
        assert point.startswith("sql:apply:"), f"the fail-point {point} was never passed"
        assert statements * step > 20, "apply has more statements than that"
        assert len(jobs) > 2, "some deaths came after the commit"
        assert not self._waits(stack, jobs[-1])
        stack.restart("scheduler")
        assert_all_is_well(people[0], jobs)
        self._assert_each_ran_once(stack, jobs, tasks=2)

    @pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)], ids=["some", "every one"])
    def test_a_scheduler_killed_at_any_statement_of_a_preemption_leaves_claims_and_orders_together(
        self, stack: Stack, people: tuple[Person, Person], one_by_one: Cycles, step: int
    ) -> None:
        """A job is met by one death after the other until one comes after it took its GPUs; then the next job is."""
        mine, others = people
        full = others.run(FOR_EVER, gpu=2, name="full")
        low = mine.run(FOR_EVER, gpu=2, name="low", berth={"gracePeriod": 1})
        taken = Taking(stack, mine, one_by_one, low)
        taken.cycles_until_running(full, low)
        jobs = [taken.submit()]
        for number in range(1, 200, step):
            if taken.claims(jobs[-1]):
                taken.through(jobs[-1])
                jobs.append(taken.submit())
            killed = one_by_one.run(f"sql:apply:{number}") == KILLED
            assert taken.claims(jobs[-1]) in (0, 2)
            assert bool(taken.claims(jobs[-1])) == taken.told_to_end(), "claimed and told to end, or neither"
            if not killed:
                break
        assert number > 30, "a preemption has more statements than that"
        assert taken.claims(jobs[-1]) == 2

        for number in range(1, 200, step):
            if not self._waits(stack, jobs[-1]):
                taken.through(jobs[-1])
                jobs.append(taken.submit())
                assert one_by_one.run() == 0
            taken.wait_until_left()
            killed = one_by_one.run(f"sql:apply:{number}") == KILLED
            assert taken.claims(jobs[-1]) == (2 if self._waits(stack, jobs[-1]) else 0)
            if not killed:
                break
        assert not self._waits(stack, jobs[-1])
        taken.through(jobs[-1])
        for person, job in ((mine, low), (others, full)):
            person.stop(job)
        stack.restart("scheduler")
        assert_all_is_well(mine, [*jobs, low])
        assert_all_is_well(others, [full])
        self._assert_each_ran_once(stack, jobs, tasks=1)

    def test_schedulers_at_the_same_time_give_no_gpu_twice_and_start_no_task_twice(
        self, stack: Stack, people: tuple[Person, Person]
    ) -> None:
        with cycles(stack.environment) as beside:
            for _ in range(2):
                beside.loop()
            jobs = [people[number % 2].run("true", name=f"small-{number}") for number in range(MANY)]
            for number, job in enumerate(jobs):
                people[number % 2].wait(job, "succeeded", deadline_s=120)
        assert_all_is_well(people[0], jobs[::2])
        assert_all_is_well(people[1], jobs[1::2])
        self._assert_each_ran_once(stack, jobs, tasks=1)

    def test_jobs_stopped_while_they_start_are_stopped_without_an_error(
        self, stack: Stack, people: tuple[Person, Person]
    ) -> None:
        with ThreadPoolExecutor(6) as pool:
            jobs = list(pool.map(lambda number: self._stopped_midway(stack, number), range(MANY)))
        assert_all_is_well(people[0], jobs)
        assert {people[0].job(job)["end_reason"] for job in jobs} == {"stopped"}

    def _stopped_midway(self, stack: Stack, number: int) -> int:
        """A job that is stopped at a moment of its own between its submission and its first minute."""
        person = alice(stack)
        job = person.run("sleep 60", name=f"stopped-{number}")
        state = random.Random(number).choice(["waiting", "starting", "running"])
        if state != "waiting":
            person.wait_for(job, lambda one: one["state"] in (state, "running"), deadline_s=120)
        person.stop(job)
        return job

    def _waits(self, stack: Stack, job: int) -> bool:
        return bool(stack.sql("SELECT state FROM jobs_job WHERE id = %s", job)[0][0] == "waiting")

    def _assert_each_ran_once(self, stack: Stack, jobs: list[int], tasks: int) -> None:
        for job in jobs:
            rows = stack.sql(
                """SELECT count(*), count(DISTINCT t.task_id), count(DISTINCT t.job_attempt_id) FROM jobs_taskattempt t
                   JOIN jobs_jobattempt a ON a.id = t.job_attempt_id WHERE a.job_id = %s""",
                job,
            )
            assert rows == [(tasks, tasks, 1)], f"job {job} ran more than once"
