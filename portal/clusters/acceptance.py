"""What an administrator has accepted of a server, and what counts of what it reports.

A report is a claim. Until a server is accepted nothing of it counts; afterwards no more than was accepted, until more
is confirmed. ``docs/decisions/acceptance.md`` says why. An offer, accepted or claimed, is kept as JSON: ``cpu_milli``,
``memory_mb``, ``address``, ``runtime``, ``simulated``, ``storages`` (roots), ``gpus`` (by model: count, memory in MB).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.utils.formats import number_format
from django.utils.translation import gettext

from nodes.protocol import GpuInfo, Inventory
from portal.clusters.inventories import ADDRESS, GPUS, MODEL, ROOT, RUNTIME, STORAGES
from portal.common.errors import Fault, Invalid
from portal.common.told import amount_believed

Offer = Mapping[str, Any]

JITTER = 0.02
"""A kernel or driver of another version tells by so much more or less memory: nobody is asked about that."""


def offer_of(found: Inventory) -> dict[str, Any]:
    """What a server claims to offer, by an inventory whose numbers can be believed to be numbers."""
    memory: dict[str, list[int]] = defaultdict(list)
    for gpu in found.gpus:
        memory[gpu.model].append(gpu.memory_mb)
    return {
        "cpu_milli": found.cpu_milli,
        "memory_mb": found.memory_mb,
        "address": found.address,
        "runtime": found.runtime,
        "simulated": found.simulated,
        "storages": sorted(set(found.storages)),
        "gpus": {model: [len(there), max(there)] for model, there in sorted(memory.items())},
    }


def offer_within(found: Inventory, accepted: Offer | None, known: Collection[str]) -> Inventory:
    """What counts of an inventory: all of it that was accepted. ``known``: the UUIDs of GPUs that count already, which
    come before others. Nothing counts of a server that runs jobs in another way than was accepted."""
    if accepted is None or not _runs_alike(accepted, offer_of(found)):
        return replace(
            found, cpu_milli=0, memory_mb=0, there_cpu_milli=0, there_memory_mb=0, address="", storages=(),
            storage_faults={}, gpus=(),
        )  # fmt: skip
    return replace(
        found,
        cpu_milli=min(found.cpu_milli, accepted["cpu_milli"]),
        memory_mb=min(found.memory_mb, accepted["memory_mb"]),
        address=accepted["address"] if found.address else "",
        storages=tuple(root for root in found.storages if root in accepted["storages"]),
        gpus=_gpus_within(found.gpus, accepted["gpus"], known),
    )


def _runs_alike(one: Offer, other: Offer) -> bool:
    return (one["runtime"], one["simulated"]) == (other["runtime"], other["simulated"])


def _gpus_within(
    gpus: Sequence[GpuInfo], accepted: Mapping[str, Sequence[int]], known: Collection[str]
) -> tuple[GpuInfo, ...]:
    left = {model: count for model, (count, _) in accepted.items()}
    counted = set()
    for gpu in sorted(gpus, key=lambda one: (one.uuid not in known, one.index)):
        if left.get(gpu.model, 0) and not _more(gpu.memory_mb, accepted[gpu.model][1]):
            left[gpu.model] -= 1
            counted.add(gpu.uuid)
    return tuple(gpu for gpu in gpus if gpu.uuid in counted)


def _more(claimed: int, accepted: int) -> bool:
    return claimed > accepted * (1 + JITTER)


class Growth(NamedTuple):
    """One thing that a server claims beyond what was accepted: its name in an offer, and the words for people."""

    name: str
    words: str


def growth(claimed: Offer, accepted: Offer) -> list[Growth]:
    """What ``claimed`` has beyond ``accepted``; nothing of what fell or stayed."""
    found = []
    if not _runs_alike(claimed, accepted):
        found.append(Growth("runtime", gettext("runs jobs by %(now)s (accepted: %(before)s)") % {
            "now": _runs(claimed), "before": _runs(accepted),
        }))  # fmt: skip
    if _more(claimed["cpu_milli"], accepted["cpu_milli"]):
        found.append(Growth("cpu_milli", gettext("%(now)s CPU cores (accepted: %(before)s)") % {
            "now": _cores(claimed["cpu_milli"]), "before": _cores(accepted["cpu_milli"]),
        }))  # fmt: skip
    if _more(claimed["memory_mb"], accepted["memory_mb"]):
        found.append(Growth("memory_mb", gettext("%(now)s MB of memory (accepted: %(before)s)") % {
            "now": number_format(claimed["memory_mb"]), "before": number_format(accepted["memory_mb"]),
        }))  # fmt: skip
    for model, (count, memory) in claimed["gpus"].items():
        before, memory_before = accepted["gpus"].get(model, (0, 0))
        if count > before or _more(memory, memory_before):
            found.append(Growth("gpus", gettext("%(now)s x %(model)s, %(memory)s MB (accepted: %(before)s)") % {
                "now": count, "model": model, "memory": number_format(memory), "before": before,
            }))  # fmt: skip
    for root in claimed["storages"]:
        if root not in accepted["storages"]:
            found.append(Growth("storages", gettext("the folder %(root)s for storages") % {"root": root}))
    if claimed["address"] and claimed["address"] != accepted["address"]:
        found.append(Growth("address", gettext("the address %(now)s (accepted: %(before)s)") % {
            "now": claimed["address"], "before": accepted["address"] or "–",
        }))  # fmt: skip
    return found


NOTHING: Offer = {
    "cpu_milli": 0, "memory_mb": 0, "address": "", "runtime": "", "simulated": False, "storages": [], "gpus": {},
}  # fmt: skip


def offer_words(claimed: Offer) -> list[str]:
    """All that a server claims, for people; of one that has not reported yet nothing."""
    if not claimed:
        return []
    words = [_runs(claimed)]
    words.append(gettext("%(cores)s CPU cores") % {"cores": _cores(claimed["cpu_milli"])})
    words.append(gettext("%(memory)s MB of memory") % {"memory": number_format(claimed["memory_mb"])})
    for model, (count, memory) in claimed["gpus"].items():
        told = {"count": count, "model": model, "memory": number_format(memory)}
        words.append(gettext("%(count)s x %(model)s, %(memory)s MB") % told)
    words += [gettext("the folder %(root)s for storages") % {"root": root} for root in claimed["storages"]]
    if claimed["address"]:
        words.append(gettext("the address %(address)s") % {"address": claimed["address"]})
    return words


def _runs(offer: Offer) -> str:
    return f"{offer['runtime'] or '–'}, {gettext('simulated GPUs')}" if offer["simulated"] else offer["runtime"] or "–"


def _cores(milli: int) -> str:
    return number_format(milli / 1000, 1 if milli % 1000 else 0)


def offer_joined(accepted: Offer | None, shown: Offer) -> dict[str, Any]:
    """What is accepted once what was shown is confirmed: of each number the larger, of storages all, and the address
    and the way in which jobs run as shown."""
    if accepted is None:
        return dict(shown)
    gpus = {model: list(told) for model, told in accepted["gpus"].items()}
    for model, (count, memory) in shown["gpus"].items():
        before, memory_before = gpus.get(model, (0, 0))
        gpus[model] = [max(count, before), max(memory, memory_before)]
    return {
        "cpu_milli": max(accepted["cpu_milli"], shown["cpu_milli"]),
        "memory_mb": max(accepted["memory_mb"], shown["memory_mb"]),
        "address": shown["address"] or accepted["address"],
        "runtime": shown["runtime"],
        "simulated": shown["simulated"],
        "storages": sorted({*accepted["storages"], *shown["storages"]}),
        "gpus": gpus,
    }


def offer_checked(told: object) -> dict[str, Any]:
    """An offer that somebody sends back to have it accepted. Raises Invalid for what is none."""
    fault = Invalid([Fault("claims", gettext("Send the claims as the node's page or answer shows them."), "invalid")])
    if not isinstance(told, dict) or told.keys() != NOTHING.keys():
        raise fault
    gpus, storages = told["gpus"], told["storages"]
    texts = all(isinstance(told[name], str) for name in ("address", "runtime")) and isinstance(told["simulated"], bool)
    if not (texts and isinstance(gpus, dict) and isinstance(storages, list) and _counts(told, gpus)):
        raise fault
    if len(gpus) > GPUS or len(storages) > STORAGES or not all(isinstance(root, str) for root in storages):
        raise fault
    return {
        "cpu_milli": amount_believed(told["cpu_milli"]),
        "memory_mb": amount_believed(told["memory_mb"]),
        "address": told["address"][:ADDRESS],
        "runtime": told["runtime"][:RUNTIME],
        "simulated": told["simulated"],
        "storages": sorted({root for root in storages if len(root) <= ROOT}),
        "gpus": {model[:MODEL]: [amount_believed(one) for one in pair] for model, pair in gpus.items()},
    }


def _counts(told: Mapping[str, Any], gpus: Mapping[Any, Any]) -> bool:
    """Whether each number is one."""
    numbers = [told["cpu_milli"], told["memory_mb"]]
    for pair in gpus.values():
        if not isinstance(pair, list) or len(pair) != 2:  # count and memory
            return False
        numbers += pair
    return all(type(one) is int and one >= 0 for one in numbers)
