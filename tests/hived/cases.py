"""Case files of HiveD's scheduler (`configs`, `pods`, `tests` with steps) as plain data in, typed data out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduling.config.faults import ConfigError, Faults
from scheduling.model.job import OPPORTUNISTIC, Job, Role, TaskRef, all_tasks

HIGHEST = 1000
"""The highest priority that HiveD knows."""

_WITH_POD = ("schedule", "addAllocated", "deleteAllocated", "deleteUnallocated")
_NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_WITH_POD, ("pod",)),
    "newScheduler": ("config",),
    "setBadNode": ("node",),
    "setHealthyNode": ("node",),
    "assertGroupAbsent": ("group",),
    "assertGroupState": ("group", "state"),
    "assertGroupLazyPreempted": ("group",),
    "assertGroupNotLazyPreempted": ("group",),
    "assertPreassignedVirtualCellsHealth": ("vc", "chain", "cellType", "which", "healthiness"),
    "captureGroupPlacement": ("group", "as"),
    "assertCapturedCells": ("capture", "ifUsedPriorityIs", "otherwiseState"),
    "assertSameNode": ("pods",),
    "assertNotSameNode": ("pods",),
    "assertGroupLCA": ("group", "cellType"),
    "assertLeafTypesUsed": ("pods", "types"),
}
_RESULTS = ("bind", "wait", "preempt", "user_error", "not_bind")


class Request(NamedTuple):
    """What a pod asks for; `members` are the pods of its group by their GPUs, equal ones together."""

    vc: str
    priority: int
    pinned: str
    sku: str
    gpus: int
    lazy: bool
    anywhere: bool
    group: str
    members: tuple[tuple[int, int], ...]

    def job(self) -> Job | None:
        """The group as a job, a role for each size of pod; None for a request that HiveD calls a user's error. Whoever
        names a pinned cell takes it of whatever type it is."""
        sizes = dict(self.members)
        sound = self.vc and self.group and OPPORTUNISTIC <= self.priority <= HIGHEST and self.gpus in sizes
        if not sound or any(gpus <= 0 or count <= 0 for gpus, count in self.members):
            return None
        if self.pinned and self.priority == OPPORTUNISTIC:
            return None
        roles = tuple(
            Role(str(gpus), count, gpus, 0, 0, None if self.pinned else self.sku or None, self.pinned or None)
            for gpus, count in sorted(sizes.items())
        )
        return Job(
            self.group, self.vc, "", self.priority, roles, 0, 0, all_tasks(roles), lazy_preemption=self.lazy
        )  # fmt: skip

    def tasks(self) -> list[TaskRef]:
        """The tasks that the pod may be: those of its size."""
        return [TaskRef(str(self.gpus), index) for index in range(dict(self.members).get(self.gpus, 0))]


@dataclass(frozen=True, slots=True)
class Case:
    """One test: the name of the configuration it begins with, its steps as they are written.

    `crash`: its configuration must be refused.
    """

    name: str
    config: str
    steps: tuple[Mapping[str, Any], ...]
    crash: bool = False


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A whole file."""

    configs: Mapping[str, Any]
    pods: Mapping[str, Request]
    tests: tuple[Case, ...]


def read(document: Any) -> CaseFile:
    """The cases of a file. Raises ConfigError with every fault and its path; configurations are read later."""
    faults = Faults()
    table = faults.table(document, "")
    configs = faults.table(table.get("configs"), "configs")
    given = faults.table(table.get("pods"), "pods").items()
    pods = {name: _request(name, one, f"pods.{name}", faults) for name, one in given}
    cases = [
        _case(one, f"tests[{number}]", configs, pods, faults)
        for number, one in enumerate(faults.items(table.get("tests"), "tests"))
    ]
    if not cases:
        faults.add("tests", "has no test")
    if faults.found:
        raise ConfigError(faults.found)
    return CaseFile(configs, pods, tuple(cases))


def _request(name: str, given: Any, path: str, faults: Faults) -> Request:
    table = faults.table(given, path)
    gpus = _number(table.get("leafCellNumber"), f"{path}.leafCellNumber", faults)
    group = faults.table(table.get("affinityGroup"), f"{path}.affinityGroup")
    members: dict[int, int] = {} if group else {gpus: 1}
    for number, one in enumerate(faults.items(group.get("members"), f"{path}.affinityGroup.members")):
        where = f"{path}.affinityGroup.members[{number}]"
        member = faults.table(one, where)
        size = _number(member.get("leafCellNumber"), f"{where}.leafCellNumber", faults)
        members[size] = members.get(size, 0) + _number(member.get("podNumber"), f"{where}.podNumber", faults)
    return Request(
        vc=_text(table.get("virtualCluster"), f"{path}.virtualCluster", faults),
        priority=_number(table.get("priority"), f"{path}.priority", faults),
        pinned=_text(table.get("pinnedCellId"), f"{path}.pinnedCellId", faults),
        sku=_text(table.get("leafCellType"), f"{path}.leafCellType", faults),
        gpus=gpus,
        lazy=faults.flag(table.get("lazyPreemptionEnable"), f"{path}.lazyPreemptionEnable"),
        anywhere=faults.flag(table.get("ignoreK8sSuggestedNodes", True), f"{path}.ignoreK8sSuggestedNodes"),
        group=_text(group.get("name"), f"{path}.affinityGroup.name", faults) if group else name,
        members=tuple(members.items()),
    )


def _case(given: Any, path: str, configs: Mapping[str, Any], pods: Mapping[str, Request], faults: Faults) -> Case:
    table = faults.table(given, path)
    config = _known(table.get("config"), configs, f"{path}.config", faults)
    steps = []
    for number, one in enumerate(faults.items(table.get("steps"), f"{path}.steps")):
        steps.append(_step(one, f"{path}.steps[{number}]", configs, pods, faults))
    expected = faults.table(table.get("expectConstruction"), f"{path}.expectConstruction")
    name = faults.name(table.get("name"), f"{path}.name")
    return Case(name, config, tuple(steps), crash=expected.get("result") == "crash")


def _step(
    given: Any, path: str, configs: Mapping[str, Any], pods: Mapping[str, Request], faults: Faults
) -> Mapping[str, Any]:
    table = faults.table(given, path)
    op = table.get("op")
    if not isinstance(op, str) or op not in _NEEDS:
        faults.add(f"{path}.op", f"is no step; steps are {', '.join(_NEEDS)}")
        return table
    for key in _NEEDS[op]:
        if table.get(key) is None:
            faults.add(f"{path}.{key}", f"is missing: {op} needs it")
    if "pod" in _NEEDS[op] and table.get("pod") is not None:
        _known(table["pod"], pods, f"{path}.pod", faults)
    if op == "newScheduler" and table.get("config") is not None:
        _known(table["config"], configs, f"{path}.config", faults)
    if op == "schedule":
        _schedule(table, path, faults)
    return table


def _schedule(step: Mapping[str, Any], path: str, faults: Faults) -> None:
    if step.get("phase", "Preempting") not in ("Preempting", "Filtering"):
        faults.add(f"{path}.phase", "must be Filtering or Preempting")
    for key in ("expect", "observed"):
        told = faults.table(step.get(key), f"{path}.{key}")
        if told and told.get("result") not in _RESULTS:
            faults.add(f"{path}.{key}.result", f"must be one of {', '.join(_RESULTS)}")
        _names(told.get("leafCells"), f"{path}.{key}.leafCells", faults, int)
        for node, names in faults.table(told.get("victimsByNode"), f"{path}.{key}.victimsByNode").items():
            _names(names, f"{path}.{key}.victimsByNode.{node}", faults, str)
        _names(told.get("victimsSubsetOf"), f"{path}.{key}.victimsSubsetOf", faults, str)
    suggested = step.get("suggestedNodes", "all")
    if isinstance(suggested, Mapping):
        _names(suggested.get("allExcept"), f"{path}.suggestedNodes.allExcept", faults, str)
    elif suggested != "all":
        _names(suggested, f"{path}.suggestedNodes", faults, str)


def _names(given: Any, path: str, faults: Faults, kind: type) -> None:
    for number, one in enumerate(faults.items(given, path)):
        if not isinstance(one, kind) or isinstance(one, bool):
            faults.add(f"{path}[{number}]", f"must be {'a number' if kind is int else 'text'}")


def _known(name: Any, among: Mapping[str, Any], path: str, faults: Faults) -> str:
    found = faults.name(name, path)
    if found and found not in among:
        faults.add(path, f"{found[:80]} is not in this file")
    return found


def _text(given: Any, path: str, faults: Faults) -> str:
    return "" if given is None or given == "" else faults.name(given, path)


def _number(given: Any, path: str, faults: Faults) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or abs(given) >= 2**31:
        faults.add(path, "must be a whole number")
        return 0
    return given
