"""The options of ``manage.py simulate`` for what is added to the engine's own sharing: one of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from django.core.management.base import CommandParser

from portal.scheduler.management.simulation.inputs import InputError
from scheduling.simulator.elastic import ElasticRule
from scheduling.simulator.guests import MOST_TURNS, GroupRule, Idle, SessionRule
from scheduling.simulator.parking import Home, ParkRule, Price, Queueing
from scheduling.simulator.policies import Sharing

MOST_PARTS = 8

DETAILS = {
    "park": ("park_home", "park_price", "park_wait", "park_patience", "park_room"),
    "elastic": ("efficiency",),
    "idle": ("busy", "when_idle"),
    "share": ("slowdown",),
    "turns": (),
}
"""The additions, and the options that say more about each."""


def add_arguments(parser: CommandParser) -> None:
    """The options."""
    parser.add_argument("--park", type=int, metavar="GPUS", help="victims of up to so many GPUs are parked in RAM")
    parser.add_argument("--park-home", choices=[one.value for one in Home], help="where they can go on (gpu)")
    parser.add_argument("--park-price", choices=[one.value for one in Price], help="what they cost as victims (work)")
    parser.add_argument("--park-wait", choices=[one.value for one in Queueing], help="how they wait (first)")
    parser.add_argument("--park-patience", type=float, metavar="SECONDS", help="until they start anywhere anew (never)")
    parser.add_argument("--park-room", type=int, metavar="GPUS", help="whose memory fits in a node's RAM (8)")
    parser.add_argument("--elastic", type=float, metavar="SHARE", help="of jobs of 2 to 8 GPUs that can run with half")
    parser.add_argument("--efficiency", type=float, help="of twice the GPUs for elastic jobs (0.8: 1.6 times as fast)")
    parser.add_argument("--idle", type=float, metavar="SHARE", help="of one-GPU jobs that are sessions, often idle")
    parser.add_argument(
        "--busy", type=float, metavar="SHARE", help="of every four hours that a session computes (0.25)"
    )
    parser.add_argument("--when-idle", choices=[one.value for one in Idle], help="what is done about it (stop)")
    parser.add_argument("--share", type=int, metavar="PARTS", help="into which a team's one-GPU jobs divide a GPU")
    parser.add_argument("--slowdown", type=float, metavar="SHARE", help="by which each is slower beside others (0)")
    parser.add_argument("--turns", action="store_true", help="a team's one-GPU jobs take turns, up to four on a GPU")


def additions_of(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Settings` that they give. Raises InputError naming the option and the number."""
    given = [name for name in DETAILS if options[name] is not None and options[name] is not False]
    for name, details in DETAILS.items():
        for detail in details:
            if options[detail] is not None and name not in given:
                raise InputError(f"{_told(detail, options)} says more about --{name}, which is not given")
    if not given:
        return {}
    if len(given) > 1:
        both = " and ".join(_told(name, options) for name in given[:2])
        raise InputError(f"{both} are simulated one at a time: give one of --{', --'.join(DETAILS)}")
    (name,) = given
    if options["policy"] != Sharing.CAPACITY.value:
        raise InputError(f"{_told(name, options)} needs --policy capacity: --policy {options['policy']} lends nothing")
    return _RULES[name](options)


def _told(name: str, options: dict[str, Any]) -> str:
    value = "" if options[name] is True else f" {options[name]}"
    return f"--{name.replace('_', '-')}{value}"


def _number(options: dict[str, Any], name: str, default: float, low: float, high: float, what: str) -> Any:
    value = default if options[name] is None else options[name]
    if not low <= value <= high or value == inf:
        limits = f"from {low:g}" if high == inf else f"from {low:g} to {high:g}"
        raise InputError(f"{_told(name, options)} is no {what} {limits}")
    return value


def _park(options: dict[str, Any]) -> dict[str, Any]:
    if options["preemption"] == "keep":
        told = _told("park", options)
        raise InputError(f"{told} needs --preemption restart: with --preemption keep a victim loses nothing")
    patience = options["park_patience"]
    if patience is not None:
        patience = round(_number(options, "park_patience", 0, 0, inf, "number of seconds") * 1000)
    rule = ParkRule(
        _number(options, "park", 1, 1, inf, "number of GPUs"),
        Home(options["park_home"] or Home.GPU),
        Price(options["park_price"] or Price.WORK),
        Queueing(options["park_wait"] or Queueing.FIRST),
        room=_number(options, "park_room", 8, 0, inf, "number of GPUs"),
        patience_ms=patience,
    )
    return {"park": rule}


def _elastic(options: dict[str, Any]) -> dict[str, Any]:
    share = _number(options, "elastic", 0, 0, 1, "share")
    return {"elastic": ElasticRule(share, _number(options, "efficiency", 0.8, 0.5, 1, "efficiency"))}


def _sessions(options: dict[str, Any]) -> dict[str, Any]:
    share, busy = _number(options, "idle", 0, 0, 1, "share"), _number(options, "busy", 0.25, 0, 1, "share")
    return {"sessions": SessionRule(share, busy, Idle(options["when_idle"] or Idle.STOP))}


def _groups(options: dict[str, Any]) -> dict[str, Any]:
    parts = _number(options, "share", 2, 2, MOST_PARTS, "number of parts")
    return {"groups": GroupRule(parts, _number(options, "slowdown", 0, 0, 0.99, "share"))}


def _turns(options: dict[str, Any]) -> dict[str, Any]:
    return {"groups": GroupRule(MOST_TURNS, turns=True)}


_RULES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "park": _park,
    "elastic": _elastic,
    "idle": _sessions,
    "share": _groups,
    "turns": _turns,
}
