"""A user's share of the team's past use: decay, running tasks, what starts, and what does not count."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling import (
    Borrow,
    CellType,
    Cluster,
    LeafUse,
    PinnedCell,
    QuotaLine,
    RunningTask,
    Standing,
    TaskPlacement,
    TaskRef,
    Usage,
    VirtualCluster,
)
from scheduling.model.cluster import Policy
from scheduling.queue.usage_history import (
    CPU,
    HOUR_MS,
    LOOSE_CPU,
    LOOSE_MEMORY,
    MEMORY,
    UsageHistory,
    amounts_of,
    hourly,
    owned_amounts,
)
from tests.unit.scheduling.builders import cluster, job, node, running

DAY = 24 * HOUR_MS
WEEK = 7 * DAY
NOW = 1000 * WEEK

# vision owns 4 of 8 GPUs; each GPU comes with 16 cores and 64 GB.
SMALL = cluster(node("n0"), node("n1"), vision=4, speech=4)


def ran(started: int, *gpus: int, cpu: int = 0, memory: int = 0, borrowed: bool = False) -> RunningTask:
    """A task on these GPUs of n0 since then."""
    standing = Standing.BORROWED if borrowed else Standing.GUARANTEED
    leaves = tuple(LeafUse(f"n0:{gpu}", None if borrowed else f"vision/A100/{gpu}", standing) for gpu in gpus)
    return RunningTask(TaskPlacement(TaskRef("worker", gpus[0] if gpus else 0), "n0", leaves, cpu, memory), started)


def past(user: str, gpu_hours: float, ago: int, resource: str = "A100") -> Usage:
    return Usage("vision", user, resource, NOW - ago, int(gpu_hours * HOUR_MS))


def share(book: UsageHistory, user: str, now: int = NOW) -> float:
    return book.shares(now).of("vision", user)


def test_who_always_held_all_of_it_has_a_share_of_one() -> None:
    book = UsageHistory(SMALL)
    book.update(job("a"), [ran(0, 0, 1, 2, 3)])
    assert share(book, "alice") == pytest.approx(1)
    assert share(book, "bob") == 0


def test_tasks_without_gpus_are_measured_by_the_nodes_that_take_them() -> None:
    shut = cluster(node("n0", cpu=64), node("n1", cpu=32, memory=100, cpu_tasks=False), vision=4)
    owned = owned_amounts(shut)["vision"]
    assert (owned[LOOSE_CPU], owned[LOOSE_MEMORY]) == (64_000, 256 * 1024)
    assert owned[CPU] == 4 * 96_000 / 8


def test_after_one_half_life_it_is_the_half() -> None:
    book = UsageHistory(SMALL)
    book.update(job("a"), [ran(NOW - WEEK, 0, 1)])
    assert share(book, "alice") == pytest.approx(0.5 * 0.5)


def test_past_use_weighs_half_after_a_half_life() -> None:
    book = UsageHistory(SMALL, [past("alice", 100, DAY), past("bob", 100, DAY + WEEK)])
    assert share(book, "alice") == pytest.approx(2 * share(book, "bob"))
    assert share(book, "alice", NOW + WEEK) == pytest.approx(share(book, "bob"))


def test_the_end_of_a_task_changes_nothing_by_itself() -> None:
    book = UsageHistory(SMALL)
    book.update(job("a"), [ran(NOW - 50 * HOUR_MS, 0, 1, cpu=8000, memory=1024)])
    running = share(book, "alice")
    book.update(job("a"), [])
    assert share(book, "alice") == 0
    amounts = {"A100": 2, CPU: 8000, MEMORY: 1024}
    for row in hourly("vision", "alice", amounts, NOW - 50 * HOUR_MS, NOW):
        book.note(row)
    assert share(book, "alice") == pytest.approx(running, rel=1e-4)


def test_the_dominant_resource_counts() -> None:
    book = UsageHistory(SMALL)
    book.update(job("a"), [ran(0, 0, cpu=48_000)])
    assert share(book, "alice") == pytest.approx(48 / 64), "1 of 4 GPUs, but 48 of the 64 cores that come with them"


def test_a_start_is_charged_an_hour_in_advance_so_that_users_take_turns() -> None:
    shares = UsageHistory(SMALL).shares(NOW)
    turns = []
    for _ in range(4):
        user = min(["alice", "bob"], key=lambda one: shares.of("vision", one))
        turns.append(user)
        shares.add("vision", user, {"A100": 1, CPU: 1000})
    assert turns == ["alice", "bob", "alice", "bob"]


def test_what_was_charged_in_advance_is_what_the_first_hour_costs() -> None:
    shares = UsageHistory(SMALL).shares(NOW)
    shares.add("vision", "alice", {"A100": 1})
    for ago in (0, HOUR_MS // 2, HOUR_MS):
        book = UsageHistory(SMALL)
        book.update(job("a"), [ran(NOW - ago, 0)])
        assert share(book, "alice") == shares.of("vision", "alice")


def test_borrowed_cells_are_nobodys_share() -> None:
    book = UsageHistory(SMALL)
    book.update(job("a"), [ran(0, 0, 1, borrowed=True), ran(0, 2)])
    assert share(book, "alice") == pytest.approx(1 / 4)


def test_tasks_without_gpus_have_an_account_of_their_own() -> None:
    book = UsageHistory(SMALL)
    book.update(job("a"), [ran(0, cpu=64_000, memory=1024)])
    shares = book.shares(NOW)
    assert shares.of("vision", "alice") == 0
    assert shares.of("vision", "alice", loose=True) == pytest.approx(0.5)
    assert amounts_of(ran(0, cpu=5, memory=7).placement, {}) == {LOOSE_CPU: 5, LOOSE_MEMORY: 7}


def test_what_the_team_does_not_own_any_more_does_not_count() -> None:
    book = UsageHistory(SMALL, [past("alice", 100, DAY, "V100")])
    assert share(book, "alice") == 0


def test_a_smaller_quota_makes_the_same_use_a_larger_share() -> None:
    book = UsageHistory(SMALL, [past("alice", 100, DAY)])
    before = share(book, "alice")
    book.reconfigure(cluster(node("n0"), node("n1"), vision=2, speech=4))
    assert share(book, "alice") == pytest.approx(2 * before)


def test_cells_of_any_type_and_pinned_ones_count_by_their_leaves() -> None:
    nodes = tuple(replace(node(name), shape="quad") for name in ("n0", "n1", "n2"))
    types = (CellType("pair", "A100", 2), CellType("quad", "pair", 2, node_level=True))
    vision = VirtualCluster("vision", (QuotaLine("A100", 1), QuotaLine("pair", 1)), pinned=("mine",))
    pinned = (PinnedCell("mine", "quad", "n2"),)
    described = Cluster(nodes, (vision,), quotas_may_exceed=True, cell_types=types, pinned_cells=pinned)
    owned = owned_amounts(described)["vision"]
    assert {one: owned[one] for one in ("A100", CPU, MEMORY)} == {
        "A100": 7, CPU: 7 * 16_000, MEMORY: 7 * 64 * 1024,
    }  # fmt: skip


def test_a_quota_of_nodes_without_named_cell_types_counts_their_leaves() -> None:
    nodes = (replace(node("n0"), shape="A100-node4"),)
    line = QuotaLine("A100-node4", 1)
    vision = replace(SMALL.virtual_clusters[0], quota=(line,))
    assert owned_amounts(Cluster(nodes, (vision,), quotas_may_exceed=True))["vision"]["A100"] == 4


def test_an_ended_task_leaves_a_row_for_each_hour_it_ran_in() -> None:
    rows = list(hourly("vision", "alice", {"A100": 2, CPU: 0}, HOUR_MS // 2, 2 * HOUR_MS + 5))
    assert [(row.resource, row.hour_ms, row.amount) for row in rows] == [
        ("A100", 0, HOUR_MS), ("A100", HOUR_MS, 2 * HOUR_MS), ("A100", 2 * HOUR_MS, 10),
    ]  # fmt: skip


def test_the_engine_notes_what_a_task_used_when_it_is_told_the_moment_of_its_end() -> None:
    made = running(SMALL, job("a"), job("b"))
    made.finish("a")
    assert made.snapshot().usage == ()
    made.finish("b", now=HOUR_MS // 2)
    used = {row.resource: row.amount for row in made.snapshot().usage}
    assert used == {"A100": HOUR_MS // 2, CPU: 1000 * HOUR_MS // 2, MEMORY: 1024 * HOUR_MS // 2}


ROWS = st.lists(
    st.builds(
        Usage,
        st.just("vision"),
        st.sampled_from(["alice", "bob"]),
        st.sampled_from(["A100", CPU]),
        st.integers(1, 400).map(lambda hour: NOW - hour * HOUR_MS),
        st.integers(1, 10**9),
    ),
    max_size=12,
)


@given(ROWS)
def test_a_book_from_its_own_rows_is_the_same_book(rows: list[Usage]) -> None:
    book = UsageHistory(SMALL)
    for row in rows:
        book.note(row)
    again = UsageHistory(SMALL, book.rows())
    assert again.rows() == book.rows()
    assert [share(again, user) for user in ("alice", "bob")] == [share(book, user) for user in ("alice", "bob")]


@given(ROWS)
def test_rows_folded_into_one_weigh_what_they_weighed(rows: list[Usage]) -> None:
    half_life = Policy().half_life_ms
    book = UsageHistory(SMALL, rows)
    for user in ("alice", "bob"):
        parts = dict.fromkeys(("A100", CPU), 0.0)
        for row in rows:
            if row.user == user:
                age = NOW - row.hour_ms - HOUR_MS / 2
                parts[row.resource] += row.amount * 0.5 ** (age / half_life)
        assert share(book, user) == pytest.approx(
            max(parts["A100"] / 4, parts[CPU] / 64_000) * 0.6931471805599453 / half_life, abs=1e-8
        )


def test_what_ran_on_loan_counts_from_the_moment_it_moves_into_the_quota_and_until_it_falls_out() -> None:
    described = replace(cluster(node("n0", 2), vision=1, speech=1), policy=Policy(backfill=False))
    made = running(described, job("first", user="bob"))
    made.submit(job("mover", user="alice", borrow=Borrow.AUTO, lazy=True))
    made.advance(0)
    made.finish("first", now=10 * HOUR_MS)
    assert [one.job for one in made.advance(10 * HOUR_MS).promotions] == ["mover"]
    made.submit(job("high", user="carol", priority=99))
    assert [one.demotes for one in made.advance(12 * HOUR_MS).starts] == [("mover",)]
    made.finish("mover", now=20 * HOUR_MS)
    mine = [row for row in made.snapshot().usage if (row.user, row.resource) == ("alice", "A100")]
    assert sum(row.amount for row in mine) == pytest.approx(2 * HOUR_MS, rel=0.01)
