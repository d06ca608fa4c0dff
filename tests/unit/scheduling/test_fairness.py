"""Dominant resource fairness, by the textbook's, the paper's and other schedulers' worked examples."""

from fractions import Fraction
from typing import Any

import pytest

from scheduling.model.description import Rules
from scheduling.queue.dominant_share import Amounts, DominantShares, turns, user_cap
from tests.support.run.facts import read_json

EXAMPLES = read_json("worked_examples.json")
DRF_PAPER = EXAMPLES["drf_paper"]
YARN = {case["name"]: case for case in EXAMPLES["yarn_capacity_preemption"]["flat"]}


def share(shares: DominantShares, name: str) -> Fraction:
    """1 is all there is of a resource, at weight 1."""
    return Fraction(shares.key(name), shares._whole * shares._scale)


def fill(shares: DominantShares, free: dict[str, int], queues: dict[str, list[dict[str, int]]]) -> list[str]:
    """Progressive filling of what is free; whose task was taken, in order."""
    picks = []
    for name, task in turns(shares, queues):
        if all(free[resource] >= amount for resource, amount in task.items()):
            for resource, amount in task.items():
                free[resource] -= amount
            shares.take(name, task)
            picks.append(name)
    return picks


def test_the_textbooks_jobs_have_the_dominant_shares_of_its_figure() -> None:
    shares = DominantShares({"gpu": 10, "memory": 20})
    shares.take("job 1", {"gpu": 2, "memory": 8})
    shares.take("job 2", {"gpu": 5, "memory": 4})
    assert [share(shares, "job 1"), share(shares, "job 2")] == [Fraction(4, 10), Fraction(5, 10)]
    assert sorted(["job 2", "job 1"], key=shares.key) == ["job 1", "job 2"]


def test_the_textbooks_tasks_are_served_one_at_a_time_ties_by_arrival() -> None:
    shares, free = DominantShares({"gpu": 10, "memory": 20}), {"gpu": 10, "memory": 20}
    queues = {
        "job 1": [{"gpu": 1, "memory": 4}, {"gpu": 1, "memory": 4}],
        "job 2": [{"gpu": 2, "memory": 2}, {"gpu": 3, "memory": 2}],
    }
    assert fill(shares, free, queues) == ["job 1", "job 2", "job 1", "job 2"]
    assert free == {"gpu": 3, "memory": 8}
    assert [share(shares, "job 1"), share(shares, "job 2")] == [Fraction(2, 5), Fraction(1, 2)]


def papers_queues(first: str, second: str) -> dict[str, list[dict[str, int]]]:
    return {name: [DRF_PAPER["users"][name]] * 9 for name in (first, second)}


def test_the_drf_papers_example_step_by_step() -> None:
    expected = DRF_PAPER["drf"]
    shares, free = DominantShares(DRF_PAPER["capacity"]), dict(DRF_PAPER["capacity"])
    seen, picks = [], []
    for name, task in turns(shares, papers_queues("B", "A")):
        if all(free[resource] >= amount for resource, amount in task.items()):
            free = {resource: amount - task[resource] for resource, amount in free.items()}
            shares.take(name, task)
            picks.append(name)
            seen.append([share(shares, "A"), share(shares, "B")])
    assert picks == expected["picks_in_order"]
    assert seen == [[Fraction(a), Fraction(b)] for a, b in expected["dominant_shares_after_each"]]
    assert {name: picks.count(name) for name in "AB"} == expected["tasks"]
    assert {one: DRF_PAPER["capacity"][one] - left for one, left in free.items()} == expected["used"]


def test_the_drf_papers_example_ends_the_same_when_the_other_comes_first() -> None:
    shares, free = DominantShares(DRF_PAPER["capacity"]), dict(DRF_PAPER["capacity"])
    assert fill(shares, free, papers_queues("A", "B")) == ["A", "B", "A", "B", "A"]
    assert [share(shares, "A"), share(shares, "B")] == [Fraction(2, 3), Fraction(2, 3)]


@pytest.mark.parametrize("case", [*EXAMPLES["mesos_drf_sorter"], *EXAMPLES["mesos_weighted_drf_sorter"]])
def test_frameworks_are_sorted_as_by_mesos(case: dict[str, Any]) -> None:
    weights = {name: Fraction(str(weight)) for name, weight in case.get("weight", {}).items()}
    shares = DominantShares(case["total"], weights)
    for name, (cpu, memory) in case["alloc"].items():
        shares.take(name, {"cpu": cpu, "mem": memory})
    assert sorted(case["alloc"], key=shares.key) == case["order"]


def test_what_was_given_back_counts_no_more() -> None:
    shares = DominantShares({"gpu": 8, "cpu": 64})
    shares.take("a", {"gpu": 4, "cpu": 8})
    shares.take("a", {"gpu": -4})
    assert share(shares, "a") == Fraction(8, 64)
    shares.take("a", {"cpu": -8})
    assert share(shares, "a") == 0


def test_what_is_set_apart_does_not_count_until_something_else_is() -> None:
    shares = DominantShares({"gpu": 8, "cpu": 64})
    shares.set_apart("a", {"gpu": 3})
    shares.take("a", {"gpu": 4, "cpu": 4})
    assert share(shares, "a") == Fraction(1, 8)
    shares.take("a", {"gpu": -2})
    assert share(shares, "a") == Fraction(4, 64), "what is left is less than that"
    shares.set_apart("a", {})
    assert share(shares, "a") == Fraction(2, 8)


def test_nobody_has_a_part_of_what_is_not_there() -> None:
    shares = DominantShares({"A100": 4, "H100": 0})
    shares.take("a", {"H100": 2, "V100": 3, "A100": 1})
    assert share(shares, "a") == Fraction(1, 4)


def test_a_claimant_whose_queue_ends_leaves_the_turns_to_the_others() -> None:
    shares = DominantShares({"gpu": 8})
    queues: dict[str, list[Amounts]] = {"a": [{"gpu": 1}], "b": [{"gpu": 2}, {"gpu": 2}], "c": []}
    seen = []
    for name, task in turns(shares, queues):
        shares.take(name, task)
        seen.append(name)
    assert seen == ["a", "b", "b"]


PAYERS = ["proportional", "preempt-cycle", "queue B preemptable"]


@pytest.mark.parametrize("name", PAYERS)
def test_the_largest_weighted_borrowed_share_pays_first_as_in_yarn(name: str) -> None:
    """Every queue weighs as much as it is guaranteed, so that equal shares are equal parts beyond the guarantee."""
    case = YARN[name]
    queues = dict(zip("ABCD", zip(case["guaranteed"], case["used"], case["pending"], strict=True), strict=False))
    shares = DominantShares({"gpu": 100}, {queue: guaranteed for queue, (guaranteed, _, _) in queues.items()})
    reserved = 0
    for queue, (guaranteed, used, pending) in queues.items():
        shares.take(queue, {"gpu": max(0, used - guaranteed)})
        reserved += max(0, min(pending, guaranteed - used))
    paid = dict.fromkeys(queues, 0)
    for _ in range(reserved):
        payer = min(queues, key=lambda name: (-shares.key(name), name))
        shares.take(payer, {"gpu": -1})
        paid[payer] += 1
    expected = case.get("preempt", [case.get("preempt_from_A"), 0, 0, 0])
    assert list(paid.values()) == expected


def test_the_users_of_the_textbooks_queues_are_capped_by_factor_times_quota() -> None:
    owned = 10  # of 100: ten percent each
    caps = {team: user_cap(Rules(user_factor=factor), owned) for team, factor in {"A": 3, "B": 1, "C": 0.25}.items()}
    assert caps == {"A": 30, "B": 10, "C": 3}
    assert user_cap(Rules(), owned) is None
    assert user_cap(Rules(user_factor=0.1), 30) == 3, "0.1 is a tenth, not a little more"
