"""Two of each process of the portal, as docs/admin/processes.md has it: one of each is killed under load, and nobody
notices for longer than the other one takes to go on."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg
import pytest

from tests.support.cluster.invariants import assert_all_is_well, assert_log, counted, counting
from tests.support.cluster.stack import Agent, Stack
from tests.support.cluster.watching import Browser
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

PROMISED_S = 10.0
"""After so long another scheduler has taken over (docs/admin/processes.md)."""
POLL_S = 0.05
MORE = 20
"""Lines that must come after each process's end."""


@pytest.fixture
def stack(services: Services, postgres: PostgresServer) -> Iterator[Stack]:
    agents = [Agent(name="here", runtime="process", gpus="simulated:8xA100-80GB")]
    made = Stack(services, database_url=postgres_copy(postgres, f"doubled_{time.monotonic_ns()}"), agents=agents)
    with closing(made):
        made.start()
        yield made


def lease(stack: Stack) -> tuple[int, bool, object]:
    """The process that has it or had it last, whether it has it now, and until when."""
    ((name, held, until),) = stack.sql("SELECT holder, until > now(), until FROM scheduler_cyclelease")
    return int(name.split(":")[-2]), held, until


@contextmanager
def stuck_in_its_cycle(stack: Stack) -> Iterator[str]:
    """The name of the scheduler that has the lease and waits in the midst of its cycle, for a table that somebody
    else keeps locked."""
    seen = [lease(stack)]

    def stands() -> bool:
        seen.append(lease(stack))
        return seen[-1] == seen[-2] and seen[-1][1]

    with psycopg.connect(stack.database_url) as connection:
        connection.execute("LOCK TABLE jobs_jobattempt IN ACCESS EXCLUSIVE MODE")
        wait_until(stands, "a scheduler to stand still in its cycle", every_s=0.3)
        (name,) = (one for one in ("scheduler", "scheduler2") if stack.processes[one].pid == seen[-1][0])
        yield name


def taken_over_after(stack: Stack) -> float:
    """Kills the scheduler that has the lease; the seconds until the other one has it."""
    with stuck_in_its_cycle(stack) as name:
        dead = stack.processes[name].pid
        stack.kill9(name)
        begin = time.monotonic()
    wait_until(lambda: lease(stack)[0] != dead, "the other scheduler", deadline_s=60, every_s=POLL_S)
    took = time.monotonic() - begin
    stack.restart(name)
    return took


def both_read_on(readers: Sequence[Browser], when: str) -> None:
    wanted = [one.lines + MORE for one in readers]
    wait_until(
        lambda: all(one.lines > most for one, most in zip(readers, wanted, strict=True)), f"both to read on {when}"
    )


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, id="once"),
        pytest.param(8, id="again and again", marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
def test_one_of_each_is_killed_and_the_other_goes_on(stack: Stack, rounds: int) -> None:
    second = stack.double()
    one, two = alice(stack), alice(stack, url=second)
    stop = stack.jobs_root / "stop"
    watched = two.run(f"i=0; while [ ! -e {stop} ]; do echo line $i; sleep 0.1; i=$((i+1)); done", name="watched")
    one.wait(watched, "running")
    (task,) = one.task_attempts(watched)
    readers = first_reader, second_reader = Browser(task["id"], one, two), Browser(task["id"], two)
    jobs: list[int] = []

    def load(*people: Person) -> None:
        jobs.extend(person.run(*counting(0.05), name=f"load{len(jobs)}") for person in people)

    try:
        load(one, two, one, two)
        both_read_on(readers, "at all")
        for number in range(rounds):
            took = taken_over_after(stack)
            assert took < PROMISED_S + POLL_S, f"the other scheduler took over after {took:.1f} s"
            which = "2" if number % 2 else ""
            for name in (f"reports{which}", f"control{which}", "web"):
                stack.kill9(name)
                load(two, two)
                both_read_on(readers, f"after the end of {name}")
                if number < rounds - 1:
                    stack.restart(name)
        for job in jobs:
            two.wait(job, "succeeded")
        stop.touch()
        two.wait(watched, "succeeded")
        wait_until(lambda: first_reader.ended and second_reader.ended, "the log's end")
    finally:
        stop.touch()
        first_reader.close()
        second_reader.close()
    assert (first_reader.broken, second_reader.broken) == (None, None)
    assert second_reader.cuts == 0, "whose web process lived lost nothing, and noticed nothing"
    assert first_reader.printed == second_reader.printed
    lines = first_reader.printed.splitlines()
    assert lines == [f"line {number}" for number in range(len(lines))]
    for job in jobs:
        assert_log(two, job, counted())
        assert two.job(job)["retries"] == 0
    assert_all_is_well(two, [watched, *jobs])
