"""The worked examples of HiveD's description (E1 to E11) and of the textbook (T8, T9), through our engine."""

from typing import Any

import pytest

from scheduling.config.reading import read as read_cluster
from tests.hived.cases import Request
from tests.hived.checks import Checks
from tests.hived.invariants import broken
from tests.hived.world import Answer, World


class Room:
    """A cluster under the policy of HiveD: groups ask, and are bound when they can be."""

    def __init__(self, physical: dict[str, Any], **quotas: list[tuple[str, int]]) -> None:
        virtual = {
            vc: {"virtualCells": [{"cellType": path, "cellNumber": count} for path, count in lines]}
            for vc, lines in quotas.items()
        }
        self.world = World(read_cluster({"physicalCluster": physical, "virtualClusters": virtual}), {})

    def ask(
        self, name: str, vc: str, gpus: int, pods: int = 1, priority: int = 0, lazy: bool = False, on: Any = None
    ) -> str:
        """What the group's first pod is told, in short: `bind n0`, `wait`, `preempt a b`; what binds is bound."""
        request = Request(vc, priority, "", "", gpus, lazy, on is None, name, ((gpus, pods),))
        names = [f"{name}-{number}" for number in range(pods)]
        self.world.requests.update(dict.fromkeys(names, request))
        answer = self._decide(names[0], on)
        if answer.result == "preempt":
            return " ".join(["preempt", *sorted(answer.victims)])
        if answer.result == "bind":
            self.world.add(names[0])
            for other in names[1:]:
                self._decide(other, on)
                self.world.add(other)
            return " ".join(["bind", *sorted({self.world.machine_of[one.node] for one in answer.placements})])
        return answer.result

    def _decide(self, pod: str, on: Any) -> Answer:
        nodes = None if on is None else self.world.allowed(on, False)
        self.world.give_up_spoilt(pod, nodes)
        answer = self.world.decide(pod, nodes)
        self.world.carry_out(pod, answer, preempting=True)
        assert broken(self.world) == []
        return answer

    def end(self, name: str, pods: int | None = None) -> None:
        """The group's pods end, or the first few of them."""
        for pod in sorted(self.world.groups[name].pods)[:pods]:
            self.world.delete(pod)

    def leaves(self, name: str) -> list[str]:
        return sorted(use.leaf for use in self.world.uses(name))

    def health(self, vc: str, chain: str, cell_type: str, which: str = "free") -> set[str]:
        step = {"vc": vc, "chain": chain, "cellType": cell_type, "which": which, "healthiness": "?"}
        failure = Checks(self.world).check({"op": "assertPreassignedVirtualCellsHealth", **step})
        return set(failure[1]) if failure else set()


def types(*levels: tuple[str, int], node: str) -> dict[str, Any]:
    """Cell types from the top down: each of so many of the next; the last is made of GPUs."""
    names = [name for name, _ in levels[1:]] + ["GPU"]
    made: dict[str, Any] = {}
    for (name, count), child in zip(levels, names, strict=True):
        made[name] = {"childCellType": child, "childCellNumber": count} | (
            {"isNodeLevel": True} if name == node else {}
        )
    return made


def one_rack(nodes: int, gpus: int) -> dict[str, Any]:
    cells = [{"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{number}"} for number in range(nodes)]}]
    return {"cellTypes": types(("RACK", nodes), ("NODE", gpus), node="NODE"), "physicalCells": cells}


@pytest.fixture
def two_nodes() -> Room:
    """A rack of two nodes of 16 GPUs; each of two virtual clusters owns one node."""
    return Room(one_rack(2, 16), vc1=[("RACK.NODE", 1)], vc2=[("RACK.NODE", 1)])


def test_e1_t9_one_gpu_jobs_of_a_team_never_stop_the_other_teams_node(two_nodes: Room) -> None:
    told = {two_nodes.ask(f"job{number}", "vc1", 1) for number in range(16)}
    assert told == {"bind n0"}
    assert two_nodes.ask("more", "vc1", 1) == "wait"
    assert two_nodes.ask("whole", "vc2", 16) == "bind n1"


def test_e2_an_owner_takes_back_what_is_lent(two_nodes: Room) -> None:
    assert two_nodes.ask("own", "vc1", 16) == "bind n0"
    assert two_nodes.ask("lent", "vc1", 8, priority=-1) == "bind n1"
    assert two_nodes.ask("owner", "vc2", 16) == "preempt lent"
    two_nodes.end("lent")
    assert two_nodes.ask("owner", "vc2", 16) == "bind n1"


def test_e3_a_gang_is_a_victim_as_a_whole(two_nodes: Room) -> None:
    assert two_nodes.ask("gang", "vc1", 16, pods=2, priority=-1) == "bind n0 n1"
    assert two_nodes.ask("owner", "vc2", 16) == "preempt gang"
    two_nodes.end("gang", pods=1)
    assert two_nodes.ask("owner", "vc2", 16) == "preempt gang"
    two_nodes.end("gang")
    assert two_nodes.ask("owner", "vc2", 16) == "bind n0"


def test_e4_hardware_with_fewest_borrowers_is_taken(two_nodes: Room) -> None:
    assert two_nodes.ask("lent", "vc1", 8, pods=2, priority=-1) == "bind n0"
    assert two_nodes.ask("owner", "vc2", 16) == "bind n1"


def test_e5_who_lends_lazily_is_demoted_before_anybody_ends(two_nodes: Room) -> None:
    assert two_nodes.ask("low", "vc1", 16, lazy=True) == "bind n0"
    assert two_nodes.ask("high", "vc1", 16, priority=5) == "bind n1"
    assert two_nodes.world.demoted("low")
    assert two_nodes.ask("owner", "vc2", 16) == "preempt low"


def test_e6_a_higher_priority_takes_a_preemption_over(two_nodes: Room) -> None:
    assert two_nodes.ask("p1", "vc1", 16) == "bind n0"
    assert two_nodes.ask("p2", "vc1", 16, priority=5) == "preempt p1"
    assert two_nodes.world.state("p2") == "Preempting"
    assert two_nodes.ask("p3", "vc1", 16, priority=7) == "preempt p1"
    assert two_nodes.world.state("p2") is None
    two_nodes.end("p1")
    assert two_nodes.ask("p2", "vc1", 16, priority=5) == "wait"
    assert two_nodes.ask("p3", "vc1", 16, priority=7) == "bind n0"
    assert two_nodes.ask("p2", "vc1", 16, priority=5) == "wait"


def textbook() -> Room:
    cells = [{"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{number}"} for number in range(1, 5)]}]
    levels = types(("RACK", 4), ("NODE", 2), ("SOCKET", 2), ("SWITCH", 2), node="NODE")
    small = [("RACK.NODE.SOCKET", 1), ("RACK.NODE.SOCKET.SWITCH", 1), ("RACK.NODE.SOCKET.SWITCH.GPU", 1)]
    large = [("RACK.NODE", 2), ("RACK.NODE.SOCKET.SWITCH", 1)]
    return Room({"cellTypes": levels, "physicalCells": cells}, A=small, B=small, C=large)


def test_e7_the_textbooks_rack_holds_all_nine_jobs_largest_first_and_then_nothing_more() -> None:
    room = textbook()
    sizes = {"A": [4, 2, 1], "B": [4, 2, 1], "C": [8, 8, 2]}
    jobs = sorted(((-gpus, vc, place) for vc, some in sizes.items() for place, gpus in enumerate(some)))
    for gpus, vc, place in jobs:
        assert room.ask(f"{vc}{place}", vc, -gpus).startswith("bind"), (vc, gpus)
    assert room.ask("lent", "A", 1, priority=-1) == "wait"


def test_t8_two_jobs_in_one_socket_are_on_different_switches() -> None:
    cells = [{"cellType": "NODE", "cellAddress": "n0"}]
    levels = types(("NODE", 2), ("SOCKET", 2), ("SWITCH", 2), node="NODE")
    room = Room({"cellTypes": levels, "physicalCells": cells}, A=[("NODE.SOCKET", 1)], B=[("NODE.SOCKET", 1)])
    assert [room.ask("first", "A", 2), room.ask("second", "A", 2)] == ["bind n0", "bind n0"]
    assert (room.leaves("first"), room.leaves("second")) == (["n0:0", "n0:1"], ["n0:2", "n0:3"])


def test_e8_larger_cells_are_split_around_bad_nodes_only_while_every_quota_stays_safe() -> None:
    racks: list[Any] = [
        {"cellType": "RACK", "cellChildren": [{"cellChildren": pair} for pair in pairs]}
        for pairs in (
            [[{"cellAddress": "a0"}, {"cellAddress": "a1"}], [{"cellAddress": "a2"}, {"cellAddress": "a3"}]],
            [[{"cellAddress": "b0"}, {"cellAddress": "b1"}], [{"cellAddress": "b2"}, {"cellAddress": "b3"}]],
        )
    ]
    racks[0]["cellChildren"][0]["pinnedCellId"] = "pin"
    levels = types(("RACK", 2), ("PAIR", 2), ("NODE", 2), node="NODE")
    room = Room({"cellTypes": levels, "physicalCells": racks}, vc1=[("RACK.PAIR.NODE", 4)], vc2=[("RACK.PAIR", 1)])
    some = ["a2", "a3", "b2", "b3"]
    assert room.ask("first", "vc1", 2, on=some) in ("bind a2", "bind a3")
    buddy = "a3" if room.leaves("first")[0].startswith("a2") else "a2"
    room.world.set_health(buddy, False)
    assert room.ask("second", "vc1", 2, on=some) in ("bind b2", "bind b3")
    buddy = "b3" if room.leaves("second")[0].startswith("b2") else "b2"
    room.world.set_health(buddy, False)
    assert room.ask("third", "vc1", 2, on=["b0", "b1"]) in ("bind b0", "bind b1", "wait")


def test_e9_a_cell_is_doomed_when_its_team_alone_could_not_be_served() -> None:
    room = Room(one_rack(3, 8), vc1=[("RACK.NODE", 2)], vc2=[("RACK.NODE", 1)])
    assert room.ask("one", "vc1", 8, on=["n0"]) == "bind n0"
    room.world.set_health("n1", False)
    assert (room.health("vc1", "RACK", "NODE"), room.health("vc2", "RACK", "NODE")) == ({"Healthy"}, {"Healthy"})
    assert room.ask("two", "vc2", 8, on=["n2"]) == "bind n2"
    assert room.health("vc1", "RACK", "NODE") == {"Bad"}
    room.end("two")
    assert room.health("vc1", "RACK", "NODE", "all") == {"Healthy"}
    room.world.set_health("n2", False)
    assert (room.health("vc1", "RACK", "NODE"), room.health("vc2", "RACK", "NODE")) == ({"Bad"}, {"Bad"})
    room.world.set_health("n2", True)
    assert (room.health("vc1", "RACK", "NODE"), room.health("vc2", "RACK", "NODE")) == ({"Healthy"}, {"Healthy"})
    for name in ("n0", "n2"):
        room.world.set_health(name, False)
    room.end("one")
    assert (room.health("vc1", "RACK", "NODE"), room.health("vc2", "RACK", "NODE")) == ({"Bad"}, {"Bad"})


def test_e10_a_preemption_that_is_withdrawn_leaves_its_victim_as_it_was(two_nodes: Room) -> None:
    assert two_nodes.ask("victim", "vc1", 16) == "bind n0"
    before = two_nodes.world.placements("victim")
    assert two_nodes.ask("high", "vc1", 16, priority=5) == "preempt victim"
    assert two_nodes.world.state("victim") == "BeingPreempted"
    two_nodes.world.withdraw("high-0")
    assert (two_nodes.world.state("high"), two_nodes.world.state("victim")) == (None, "Allocated")
    assert two_nodes.world.placements("victim") == before


def test_e11_a_job_waits_rather_than_use_a_bad_node_and_binds_when_it_is_healthy(two_nodes: Room) -> None:
    assert two_nodes.ask("other", "vc2", 16, on=["n0"]) == "bind n0"
    two_nodes.world.set_health("n1", False)
    assert two_nodes.ask("job", "vc1", 16) == "wait"
    two_nodes.world.set_health("n1", True)
    assert two_nodes.ask("job", "vc1", 16) == "bind n1"


def test_an_opportunistic_gang_never_spans_two_chains() -> None:
    cells = [{"cellType": name, "cellAddress": name.lower()} for name in ("BOX", "CASE")]
    made = types(("BOX", 2), node="BOX") | types(("CASE", 2), node="CASE")
    room = Room({"cellTypes": made, "physicalCells": cells}, vc1=[("BOX", 1), ("CASE", 1)])
    assert room.ask("gang", "vc1", 2, pods=2, priority=-1) == "wait"
    assert room.ask("single", "vc1", 2, priority=-1) == "bind case"


def test_a_lazy_victim_gives_its_virtual_cells_up_before_they_are_claimed() -> None:
    room = Room(one_rack(1, 4), vc1=[("RACK.NODE", 1)])
    assert room.ask("lent", "vc1", 1, priority=-1) == "bind n0"
    assert room.ask("low", "vc1", 2, priority=1, lazy=True) == "bind n0"
    assert room.ask("high", "vc1", 4, priority=5) == "preempt lent low"
    assert room.world.demoted("low")


def test_a_gang_takes_the_hardware_that_leaves_room_for_all_of_it() -> None:
    """The first healthy node would leave its only healthy rack to nobody, so that the second task had no place."""
    racks = [
        {"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{2 * rack + number}"} for number in range(2)]}
        for rack in range(2)
    ]
    levels = types(("RACK", 2), ("NODE", 4), node="NODE")
    room = Room({"cellTypes": levels, "physicalCells": racks}, vc0=[("RACK", 1)], vc1=[("RACK.NODE", 2)])
    room.world.set_health("n1", False)
    assert room.ask("gang", "vc1", 4, pods=2) == "bind n2 n3"
