"""Translates why a job waits from its code and numbers; the stored sentence is English. An unknown reason stays as it
was written. Also says why a start has no estimate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import get_language, gettext, gettext_noop, ngettext

from nodes.protocol.wording import told
from portal.common.templatetags.frontend import cores, memory
from portal.hardware.health_words import health_words
from portal.jobs.models import Job
from portal.queue.selectors.queue import Forecast

Numbers = Mapping[str, Any]

PREEMPTING = "preempting"
"""Waiting code of a job for which GPUs are being taken back."""


_REASONS: tuple[tuple[str, str], ...] = (
    ("paused", gettext_noop("the job is paused; once it is resumed it waits for its turn")),
    ("parked", gettext_noop("the job is parked: its GPUs are lent until it is resumed")),
    ("dependency", gettext_noop("%(jobs)s jobs must end first, such as %(first)s")),
    ("no_node", gettext_noop("none of the servers that it may run on is part of the cluster: %(where)s")),
    ("quota", gettext_noop(
        "%(free)s of team %(vc)s's %(sku)s are free, but at most %(largest)s of them lie together; the tasks of this "
        "job (%(needed)s %(sku)s) do not fit into what is free"
    )),
    ("quota", gettext_noop(
        "team %(vc)s holds %(held)s of its %(owned)s %(sku)s, so %(left)s are left; this job needs %(needed)s"
    )),
    ("quota", gettext_noop(
        "at most %(whole)s of team %(vc)s's %(owned)s %(sku)s lie together; the tasks of this job (%(needed)s %(sku)s) "
        "wait for a larger quota"
    )),
    ("quota", gettext_noop(
        "team %(vc)s owns %(owned)s %(sku)s; this job needs %(needed)s, so it waits for a larger quota"
    )),
    ("quota", gettext_noop("team %(vc)s has no pinned cell %(pinned)s")),
    ("quota", gettext_noop("team %(vc)s owns no GPUs")),
    ("user_limit", gettext_noop(
        "%(user)s holds %(held)s of the %(limit)s %(sku)s that one user of team %(vc)s may hold; this job needs "
        "%(needed)s"
    )),
    ("user_limit", gettext_noop(
        "jobs of priority %(priority)s and higher hold %(held)s of the %(limit)s GPUs that team %(vc)s allows them "
        "together; this job needs %(needed)s"
    )),
    ("order", gettext_noop(
        "%(owed)s of team %(vc)s's %(sku)s, %(below)s of them used by lower priorities, are for earlier jobs that run "
        "on borrowed GPUs and will move there; this job needs %(needed)s"
    )),
    ("order", gettext_noop(
        "%(free)s of team %(vc)s's %(sku)s are free, but %(owed)s of them are for earlier jobs that run on borrowed "
        "GPUs and will move there; this job needs %(needed)s"
    )),
    ("order", gettext_noop("%(ahead)s jobs of the team come first: %(why)s")),
    ("lend_limit", gettext_noop(
        "all teams together lend at most %(limit)s %(sku)s now, and %(lent)s are lent; this job would borrow %(needed)s"
    )),
    ("borrow_limit", gettext_noop(
        "team %(vc)s may borrow at most %(limit)s %(sku)s, and has borrowed %(held)s; this job would borrow %(needed)s"
    )),
    ("fragmented", gettext_noop("it has tasks without GPUs, and %(shut)s servers for them take only tasks with GPUs")),
    ("fragmented", gettext_noop(
        "it needs %(needed_in_all)s %(sku)s in %(tasks)s tasks at once, each on one node; %(hole)s"
    )),
    ("bad_nodes", gettext_noop(
        "it needs %(needed)s %(sku)s; %(free)s are free, and %(unusable)s more cannot be used now: %(where)s; because "
        "of that, %(doomed)s %(doomed_type)s of the team's quota cannot be had"
    )),
    ("bad_nodes", gettext_noop(
        "it needs %(needed)s %(sku)s; %(free)s are free, and %(unusable)s more cannot be used now: %(where)s"
    )),
    ("resources", gettext_noop(
        "%(needs)s; the node with the most room, %(node)s, has %(room)s; %(shut)s more servers take only tasks with "
        "GPUs"
    )),
    ("resources", gettext_noop(
        "%(needs)s; the node with the most room, %(node)s, has %(room)s; job %(job)s has %(beyond)s there beyond the "
        "share of its GPUs"
    )),
    ("resources", gettext_noop("%(needs)s; the node with the most room, %(node)s, has %(room)s")),
    ("loans_lost", gettext_noop(
        "what it had on loan was taken back %(times)s times within an hour, so it is lent only what has idled for "
        "%(minutes)s minutes"
    )),
    ("ports", gettext_noop(
        "a task of it needs %(wanted)s free ports on its node; too few are free on %(nodes)s until tasks there end"
    )),
    ("reserved", gettext_noop(
        "the GPUs that it could have are kept for job %(job)s, which comes first and can start in %(minutes)s min"
    )),
    ("preempting", gettext_noop("%(kept)s GPUs are being taken back for it; it starts when those jobs have ended")),
    ("preempting", gettext_noop(
        "in the team's quota it gets the place of job %(leaving)s, which is ending; free GPUs are there, so it starts "
        "in a moment"
    )),
    ("preempting", gettext_noop(
        "CPU and memory are being taken back for it, of %(jobs)s jobs, such as %(giving)s; it starts when they have "
        "ended"
    )),
    ("preempting", gettext_noop(
        "GPUs would be taken back for it from %(victims)s jobs, which have at most %(grace_s)s s to end"
    )),
)  # fmt: skip
"""Sentences by code; the first whose numbers are all present is used."""
_AHEAD = {
    "by_priority": gettext_noop("%(number)s with a higher priority"),
    "by_hand": gettext_noop("%(number)s moved ahead by a lead"),
    "by_kept": gettext_noop("%(number)s with cells kept already"),
    "by_share": gettext_noop("%(number)s of users who have used less lately"),
    "by_submission": gettext_noop("%(number)s submitted earlier"),
}
_NUMBER = re.compile(r"%\((\w+)\)s")


def why_waits(job: Job) -> str:
    """Why the job waits, in the reader's language."""
    return reason_words(code=job.waiting_code, numbers=job.waiting_numbers, message=job.waiting_message)


def reason_words(*, code: str, numbers: Numbers, message: str) -> str:
    """The message in English, or what its code and numbers say in the reader's language."""
    if get_language() == "en" or not message:
        return message
    worded = _worded(code, numbers)
    for known, sentence in _REASONS:
        if known == code and worded.keys() >= set(_NUMBER.findall(sentence)):
            return gettext(sentence) % worded
    return health_words(told(numbers)) or message


def no_start_words(*, forecast: Forecast, vc: str, code: str) -> str:
    """Why the start of a job of this VC that waits for the reason ``code`` has no estimate, in the reader's language.
    Empty if it has one, and while GPUs are being taken back for it: its reason says when it starts. One query if
    others' missing time limits are the cause."""
    if forecast.start is not None or code == PREEMPTING:
        return ""
    if code in ("bad_nodes", "no_node"):
        return gettext("No estimate of its start: nobody knows when what is out of service comes back.")
    if forecast.endless is None:
        return gettext("No estimate yet of its start: it takes time limits, or 20 past runs like those it waits for.")
    rows = Job.objects.filter(pk__in=forecast.endless.jobs).select_related("user", "vc").order_by()
    found = {row.pk: row for row in rows}
    names = [_name(found[pk], vc) for pk in forecast.endless.jobs if pk in found]
    more = forecast.endless.count - len(names)
    if more:
        names.append(gettext("%(number)s more") % {"number": more})
    listed = names[0] if len(names) == 1 else gettext("%(names)s and %(last)s") % {
        "names": gettext(", ").join(names[:-1]), "last": names[-1],
    }  # fmt: skip
    return ngettext(
        "No estimate of its start: %(jobs)s has no time limit, and fewer than 20 past runs tell how long it may take.",
        "No estimate of its start: %(jobs)s have no time limit, and fewer than 20 past runs tell how long they may "
        "take.",
        forecast.endless.count,
    ) % {"jobs": listed}


def _name(job: Job, vc: str) -> str:
    """The job as named to a team: its own by label, others' by owner and VC."""
    if job.vc.name == vc:
        return job.label
    return gettext("a job of %(user)s in %(vc)s") % {"user": job.user.username, "vc": job.vc.name}


def _worded(code: str, numbers: Numbers) -> dict[str, Any]:
    """The numbers, plus those derived from them."""
    make = _MADE.get(code)
    return {**numbers, **(make(numbers) if make else {})}


def _ahead(numbers: Numbers) -> dict[str, str]:
    parts = [gettext(words) % {"number": numbers[key]} for key, words in _AHEAD.items() if numbers.get(key)]
    return {"why": gettext(", ").join(parts)} if parts else {}


def _left(numbers: Numbers) -> dict[str, Any]:
    return {"left": max(0, numbers["owned"] - numbers["held"])} if {"owned", "held"} <= numbers.keys() else {}


def _hole(numbers: Numbers) -> dict[str, str]:
    if not numbers.get("needed"):
        return {}
    if not numbers["largest"]:
        return {"hole": gettext("no GPU of this kind is free")}
    return {"hole": gettext("%(free)s are free, at most %(largest)s of them on one node (%(node)s)") % numbers}


def _amounts(numbers: Numbers) -> dict[str, str]:
    """What is needed and available: for one task if none fits, else for all together."""
    if "all_cpu_milli" in numbers:
        needs = gettext("each of its tasks would fit, but not all together, which need %(amount)s") % {
            "amount": _amount(numbers["all_cpu_milli"], numbers["all_memory_mb"])
        }
    else:
        needs = gettext("each of %(tasks)s tasks needs %(amount)s") % {
            "tasks": numbers["tasks"],
            "amount": _amount(numbers["cpu_milli"], numbers["memory_mb"]),
        }
    room = gettext("%(amount)s free") % {"amount": _amount(numbers["free_cpu_milli"], numbers["free_memory_mb"])}
    if "kept_cpu_milli" in numbers:
        kept = {"room": room, "kept": _amount(numbers["kept_cpu_milli"], numbers["kept_memory_mb"])}
        room = gettext("%(room)s for it; %(kept)s more are kept there for jobs that use its idle GPUs") % kept
    if "beyond_cpu_milli" not in numbers:
        return {"needs": needs, "room": room}
    beyond = _amount(numbers["beyond_cpu_milli"], numbers["beyond_memory_mb"])
    return {"needs": needs, "room": room, "beyond": beyond}


def _amount(cpu_milli: int, memory_mb: int) -> str:
    return gettext("%(cpu)s CPU and %(memory)s") % {"cpu": cores(cpu_milli), "memory": memory(memory_mb)}


def _kept(numbers: Numbers) -> dict[str, Any]:
    if "gpus" not in numbers:
        return {}
    if numbers.get("resources"):
        return {"giving": numbers["first"]}
    return {"kept": numbers["gpus"]} if numbers["gpus"] else {"leaving": numbers["first"]}


_MADE: dict[str, Callable[[Numbers], dict[str, Any]]] = {
    "quota": _left,
    "order": _ahead,
    "fragmented": _hole,
    "resources": _amounts,
    "preempting": _kept,
}
