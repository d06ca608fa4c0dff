"""What our engine answers in HiveD's cases, and on random streams of the oracle: as recorded, or better."""

import json
from typing import Any

import pytest

from tests.hived.cases import read
from tests.hived.compare import Difference
from tests.hived.engine import HivedEngine
from tests.hived.reference import Reference
from tests.hived.run import Tally, replay
from tests.hived.streams import narrow_document, stream
from tests.support.run.facts import hived_cases, hived_streams

CASES = hived_cases()
STREAMS = hived_streams()


def differences(document: Any, follow: bool) -> tuple[list[Difference], Tally]:
    tally = Tally()
    return list(replay(read(document), follow, tally)), tally


@pytest.mark.parametrize("follow", [False, True], ids=["strict", "follow"])
def test_the_references_own_test_has_no_difference(follow: bool) -> None:
    found, tally = differences(CASES, follow)
    assert found == []
    assert (tally.tests, tally.steps) == (8, 226)


def test_the_recorded_streams_have_no_difference_when_followed() -> None:
    found, tally = differences(STREAMS, follow=True)
    assert found == []
    assert (tally.tests, tally.steps) == (20, 1019)


@pytest.mark.parametrize("seed", range(20))
def test_our_own_random_streams_break_no_invariant_and_replay_as_they_were(seed: int) -> None:
    document, faults = stream(seed, HivedEngine)
    assert faults == []
    found, tally = differences(json.loads(json.dumps(document)), follow=True)
    assert (found, tally.better) == ([], 0)


# In the streams beyond 1000 the order of equal virtual nodes decides, which HiveD keeps from one request to the next.
@pytest.mark.parametrize("seed", [*range(20), 1065, 1139, 1215, 1398, 1558, 1613])
def test_a_random_stream_of_the_oracle_has_no_difference_when_followed(seed: int) -> None:
    document, _ = stream(seed, Reference)
    assert differences(json.loads(json.dumps(document)), follow=True)[0] == []


@pytest.mark.parametrize("make", [HivedEngine, Reference])
@pytest.mark.parametrize("seed", range(25))
def test_streams_on_nodes_of_one_gpu_and_racks_of_one_node_have_no_difference(seed: int, make: Any) -> None:
    document, faults = stream(seed, make, cluster=narrow_document)
    assert faults == []
    assert differences(json.loads(json.dumps(document)), follow=True)[0] == []


@pytest.mark.soak
def test_thousands_of_our_own_random_streams_break_no_invariant() -> None:
    for seed in range(2000):
        document, faults = stream(seed, HivedEngine)
        assert faults == [], seed
        assert differences(json.loads(json.dumps(document)), follow=True)[0] == [], seed


@pytest.mark.soak
def test_thousands_of_random_streams_of_the_oracle_have_no_difference_when_followed() -> None:
    for seed in range(2000):
        document, _ = stream(seed, Reference)
        assert differences(json.loads(json.dumps(document)), follow=True)[0] == [], seed
