"""The offer an administrator has accepted of a node, and what counts of its reports.

A report is a claim. Nothing of it counts until the node is accepted; after that, no more than was accepted, until more
is confirmed. ``docs/decisions/acceptance.md`` says why. An offer, accepted or claimed, is kept as JSON: ``cpu_milli``,
``memory_mb``, ``address``, ``runtime``, ``simulated``, ``storages`` (roots), ``gpus`` (by model: count, memory in MB).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from django.utils.translation import gettext

from nodes.protocol.messages import GpuInfo, Inventory
from portal.common.errors import Fault, Invalid
from portal.common.templatetags.frontend import cores, memory
from portal.common.told import GPUS, amount_believed
from portal.hardware.inventories import ADDRESS, MODEL, ROOT, RUNTIME, STORAGES

Offer = Mapping[str, Any]

JITTER = 0.02
"""Tolerated growth: another kernel or driver version reports slightly more memory; nobody is asked about that."""


def offer_of(found: Inventory) -> dict[str, Any]:
    """The offer a node claims, from an inventory whose numbers have been checked."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for gpu in found.gpus:
        sizes[gpu.model].append(gpu.memory_mb)
    return {
        "cpu_milli": found.cpu_milli,
        "memory_mb": found.memory_mb,
        "address": found.address,
        "runtime": found.runtime,
        "simulated": found.simulated,
        "storages": sorted(set(found.storages)),
        "gpus": {model: [len(there), max(there)] for model, there in sorted(sizes.items())},
    }


def offer_within(found: Inventory, accepted: Offer | None, known: Collection[str]) -> Inventory:
    """The accepted part of an inventory. GPUs in ``known`` (UUIDs that count already) come before others. Empty if the
    node runs jobs in another way than was accepted."""
    if accepted is None or not _runs_alike(accepted, offer_of(found)):
        return replace(
            found, cpu_milli=0, memory_mb=0, there_cpu_milli=0, there_memory_mb=0, address="", storages=(),
            storage_faults={}, storages_unguarded={}, gpus=(),
        )  # fmt: skip
    return replace(
        found,
        cpu_milli=min(found.cpu_milli, accepted["cpu_milli"]),
        memory_mb=min(found.memory_mb, accepted["memory_mb"]),
        address=accepted["address"] if found.address else "",
        storages=_roots_within(found.storages, accepted["storages"]),
        gpus=_gpus_within(found.gpus, accepted["gpus"], known),
    )


def _roots_within(told: Sequence[str], accepted: Sequence[str]) -> tuple[str, ...]:
    """Reported roots inside accepted ones, and accepted roots inside reported ones."""
    within = [root for root in told if below(root, accepted)]
    return tuple(dict.fromkeys([*within, *(root for root in accepted if below(root, told))]))


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


def growth(claimed: Offer, accepted: Offer) -> list[str]:
    """Phrases for what ``claimed`` has beyond ``accepted``; nothing of what fell or stayed."""
    found = []
    if not _runs_alike(claimed, accepted):
        told = {"now": _runs(claimed), "before": _runs(accepted)}
        found.append(gettext("runs jobs by %(now)s (accepted: %(before)s)") % told)
    if _more(claimed["cpu_milli"], accepted["cpu_milli"]):
        told = {"now": cores(claimed["cpu_milli"]), "before": cores(accepted["cpu_milli"])}
        found.append(gettext("%(now)s CPU cores (accepted: %(before)s)") % told)
    if _more(claimed["memory_mb"], accepted["memory_mb"]):
        told = {"now": memory(claimed["memory_mb"]), "before": memory(accepted["memory_mb"])}
        found.append(gettext("%(now)s of memory (accepted: %(before)s)") % told)
    for model, (count, size) in claimed["gpus"].items():
        before, size_before = accepted["gpus"].get(model, (0, 0))
        if count > before or _more(size, size_before):
            told = {"now": count, "model": model, "memory": memory(size), "before": before}
            found.append(gettext("%(now)s x %(model)s, %(memory)s (accepted: %(before)s)") % told)
    more = [root for root in claimed["storages"] if not below(root, accepted["storages"])]
    found += [gettext("the folder %(root)s for storages") % {"root": root} for root in more]
    if claimed["address"] and claimed["address"] != accepted["address"]:
        told = {"now": claimed["address"], "before": accepted["address"] or "–"}
        found.append(gettext("the address %(now)s (accepted: %(before)s)") % told)
    return found


NOTHING: Offer = {
    "cpu_milli": 0, "memory_mb": 0, "address": "", "runtime": "", "simulated": False, "storages": [], "gpus": {},
}  # fmt: skip


def offer_words(claimed: Offer) -> list[str]:
    """Phrases for everything a node claims; empty if it has not reported yet."""
    if not claimed:
        return []
    words = [gettext("jobs run by %(how)s") % {"how": _runs(claimed)}]
    words.append(gettext("%(cores)s CPU cores") % {"cores": cores(claimed["cpu_milli"])})
    words.append(gettext("%(memory)s of memory") % {"memory": memory(claimed["memory_mb"])})
    for model, (count, size) in claimed["gpus"].items():
        told = {"count": count, "model": model, "memory": memory(size)}
        words.append(gettext("%(count)s x %(model)s, %(memory)s") % told)
    words += [gettext("the folder %(root)s for storages") % {"root": root} for root in claimed["storages"]]
    if claimed["address"]:
        words.append(gettext("the address %(address)s") % {"address": claimed["address"]})
    return words


def _runs(offer: Offer) -> str:
    return f"{offer['runtime'] or '–'}, {gettext('simulated GPUs')}" if offer["simulated"] else offer["runtime"] or "–"


def offer_joined(accepted: Offer | None, shown: Offer) -> dict[str, Any]:
    """The accepted offer once ``shown`` is confirmed: the larger of each number, all storages, and the address, runtime
    and ``simulated`` as shown."""
    if accepted is None:
        return dict(shown)
    gpus = {model: list(told) for model, told in accepted["gpus"].items()}
    for model, (count, size) in shown["gpus"].items():
        before, size_before = gpus.get(model, (0, 0))
        gpus[model] = [max(count, before), max(size, size_before)]
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
    """Validates an offer that a client sends back for acceptance. Raises Invalid if it is none."""
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
    """Whether each is a count."""
    numbers = [told["cpu_milli"], told["memory_mb"]]
    for pair in gpus.values():
        if not isinstance(pair, list) or len(pair) != 2:  # count and memory
            return False
        numbers += pair
    return all(type(one) is int and one >= 0 for one in numbers)


def below(root: str, roots: Collection[str]) -> bool:
    """Whether a storage's root lies in one of these folders or is one."""
    path = PurePosixPath(root)
    return any(path.is_relative_to(one) for one in roots)
