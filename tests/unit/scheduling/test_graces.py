"""Victims that leave after a grace: while they do, no plan goes round, and what was begun comes to its end."""

import os
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduling import Borrow, Cluster, Engine, Job, Plan, Role, Rules, Snapshot, refusals
from tests.unit.scheduling.builders import cluster, job, node, role, with_rules
from tests.unit.scheduling.cellworlds import World
from tests.unit.scheduling.playing import Player
from tests.unit.scheduling.test_properties import check_books
from tests.unit.scheduling.worlds import holds

EXAMPLES = os.environ.get("BERTH_TEST_EXAMPLES", "")
TEAMS = ("vision", "speech", "nlp")
Parks = dict[str, tuple[int, int]]


class Doubted(Player):
    """A player whose engine is doubted: one restored from its snapshot, and one that follows it, say the same. `reads`:
    before each plan it is told its state anew, as the portal stores it."""

    reads = False
    _follower: Engine | None = None

    def advance(self, now: int) -> Plan:
        if self.reads:
            self.made.follow(as_stored(self.made.snapshot()))
        state = self.made.snapshot()
        plan = super().advance(now)
        after = self.made.snapshot()
        check_books(after)
        self._follower = self._follower or Engine(state.cluster)
        self._follower.follow(state)
        for other in (Engine.restore(state), self._follower):
            assert other.advance(now) == plan
            assert other.snapshot() == after
        return plan


def as_stored(state: Snapshot) -> Snapshot:
    """The same as the portal stores it: whoever holds a claimed GPU is the victim, even where it was lent."""
    holders = holds(state)
    claims = tuple(one._replace(victim=next(iter(holders.get(one.leaf, ())), None)) for one in state.claims)
    return replace(state, claims=claims)


def a_cluster(chance: Random) -> Cluster:
    """Up to three nodes, most of whose GPUs belong to teams, some of which may lend and borrow only so many."""
    count = chance.randint(1, 3)
    nodes = [node(f"n{number}", chance.randint(1, 4), cpu=chance.randint(4, 12)) for number in range(count)]
    left, quotas = sum(len(one.leaves) for one in nodes), {}
    for name in TEAMS:
        quotas[name] = chance.randint(0, left)
        left -= quotas[name]
    limits = {name: Rules(max_borrow=a_limit(chance), max_lend=a_limit(chance)) for name in TEAMS}
    return with_rules(cluster(*nodes, **quotas), **limits)


def a_limit(chance: Random) -> dict[str, int]:
    return {"A100": chance.randint(0, 3)} if chance.random() < 0.2 else {}


def a_job(chance: Random, name: str) -> Job:
    """Elastic, opportunistic, borrowing or none of these; with a grace or without."""
    count, gpus, cpu = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 1, 2]), chance.choice([0, 1, 2, 4])
    elastic, gang = chance.random() < 0.35, chance.random() < 0.7
    wants: list[Role] = [role(count=count, gpus=gpus, cpu=cpu)]
    if elastic:
        wants = [role(count=count + chance.randint(0, 4), gpus=gpus, cpu=cpu, least=count)]
    elif chance.random() < 0.1:
        wants.append(role("master", gpus=0, cpu=chance.randint(1, 3), sku=None))
    priority = chance.choice([-1, -1, 0, 5, 5, 10])
    borrow = Borrow.AUTO if priority >= 0 and chance.random() < 0.4 else Borrow.NEVER
    return job(
        name, *wants, vc=chance.choice(TEAMS), priority=priority, at=chance.randint(0, 25), gang=gang or elastic,
        user=chance.choice(["alice", "bob"]), borrow=borrow,
        grace=chance.choice([0, 2, 3, 7]), min_run=chance.choice([0, 0, 5]), lazy=chance.random() < 0.2,
        preemptible=chance.random() < 0.8, limit=chance.choice([None, None, 20]),
    )  # fmt: skip


def a_world(chance: Random) -> tuple[World, Parks]:
    """A cluster and a stream of jobs that it takes; which of them are parked, and from when till when."""
    described, arrivals, lasts, parks = a_cluster(chance), [], {}, {}
    for number in range(16):
        one = a_job(chance, f"j{number:02}")._replace(order_id=number)
        if refusals(described, one):
            continue
        arrivals.append((one.submitted_ms, one))
        lasts[one.id] = chance.randint(1, 20)
        if one.wanted == one.wanted[:1] and one.roles[0].gpus == 1 and chance.random() < 0.7:
            at = one.submitted_ms + chance.randint(1, 9)
            parks[one.id] = at, at + chance.randint(1, 15)
    return World(described, tuple(arrivals), lasts), parks


def check_graces(chance: Random) -> None:
    """No pass of one moment changes something for ever (`Player` counts them), and nothing stays claimed."""
    world, parks = a_world(chance)
    player = Doubted(Engine(world.cluster), world.lasts, parks=parks)
    player.reads = chance.random() < 0.5
    player.play(world.arrivals)
    state = player.made.snapshot()
    assert (state.running, state.claims) == ((), ())


@settings(max_examples=int(EXAMPLES or 25), derandomize=not EXAMPLES)
@given(st.integers(0, 2**32))
def test_while_victims_leave_plans_come_to_rest_and_a_restored_engine_says_the_same(seed: int) -> None:
    check_graces(Random(seed))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=3_000, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_the_same_in_thousands_of_worlds(seed: int) -> None:
    check_graces(Random(seed))
