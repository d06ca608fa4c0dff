"""Why a job waits, for readers of another language than the sentence that is stored: worded anew from its code and
numbers. A reason that is not known here stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import get_language, gettext, gettext_noop

from portal.common.sentences import reworded
from portal.common.templatetags.frontend import cores, memory
from portal.jobs.models import Job

Numbers = Mapping[str, Any]

_REASONS: tuple[tuple[str, str], ...] = (
    ("paused", gettext_noop("the job is paused")),
    ("dependency", gettext_noop("%(jobs)s jobs must end first, such as %(first)s")),
    ("quota", gettext_noop(
        "%(free)s %(sku)s of team %(vc)s's quota are free, at most %(largest)s of them in one cell; no free cells hold "
        "the tasks of this job (%(needed)s %(sku)s)"
    )),
    ("quota", gettext_noop("team %(vc)s holds %(held)s of %(owned)s %(sku)s; this job needs %(needed)s")),
    ("quota", gettext_noop("team %(vc)s owns no GPUs")),
    ("user_limit", gettext_noop(
        "%(user)s holds %(held)s of the %(limit)s %(sku)s that one user of team %(vc)s may; this job needs %(needed)s"
    )),
    ("user_limit", gettext_noop(
        "jobs of high priority hold %(held)s of the %(limit)s GPUs that team %(vc)s allows them; "
        "this job needs %(needed)s"
    )),
    ("order", gettext_noop(
        "%(free)s %(sku)s of team %(vc)s's quota are free, %(owed)s of them for jobs ahead that run on loan; this job "
        "needs %(needed)s"
    )),
    ("order", gettext_noop("%(ahead)s of your team are ahead: %(why)s")),
    ("lend_limit", gettext_noop(
        "%(lent)s of the %(limit)s %(sku)s that may be on loan now are lent; this job needs %(needed)s"
    )),
    ("borrow_limit", gettext_noop(
        "team %(vc)s borrows %(held)s of the %(limit)s %(sku)s that it may; this job needs %(needed)s"
    )),
    ("fragmented", gettext_noop("needs %(needed_in_all)s %(sku)s in %(tasks)s tasks, each on one node; %(hole)s")),
    ("bad_nodes", gettext_noop(
        "needs %(needed)s %(sku)s; %(free)s are free, %(unusable)s more cannot be used: %(where)s"
    )),
    ("resources", gettext_noop(
        "each of %(tasks)s tasks needs %(cpu)s CPU and %(memory)s; the roomiest node, %(node)s, has %(free_cpu)s CPU "
        "and %(free_memory)s"
    )),
    ("reserved", gettext_noop("its cells are kept for job %(job)s")),
    ("preempting", gettext_noop("%(kept)s GPUs are kept for it until those who hold them have left")),
    ("preempting", gettext_noop(
        "GPUs would be taken back for it from %(victims)s jobs, which have at most %(grace_s)s s to end"
    )),
)  # fmt: skip
"""Of the sentences of a code the first whose numbers are all there."""
_SENTENCES = (
    gettext_noop("it needs %(job)s, which ended as %(state)s; stop this job, or let that one succeed"),
    gettext_noop("it is tried again at %(time)s UTC"),
)
"""Those that come without numbers."""

_AHEAD = {
    "by_priority": gettext_noop("%(number)s by priority"),
    "by_hand": gettext_noop("%(number)s put there by a lead"),
    "by_share": gettext_noop("%(number)s by smaller recent use"),
    "by_submission": gettext_noop("%(number)s by earlier submission"),
}
_NUMBER = re.compile(r"%\((\w+)\)s")


def why_waits(job: Job) -> str:
    """The stored sentence to readers of English, else its like in their language."""
    return reason_words(code=job.waiting_code, numbers=job.waiting_numbers, message=job.waiting_message)


def reason_words(*, code: str, numbers: Numbers, message: str) -> str:
    """The message to readers of English, else what its code and numbers say in their language."""
    if get_language() == "en" or not message:
        return message
    worded = _worded(code, numbers)
    for known, sentence in _REASONS:
        if known == code and worded.keys() >= set(_NUMBER.findall(sentence)):
            return gettext(sentence) % worded
    return reworded(message, _SENTENCES)


def _worded(code: str, numbers: Numbers) -> dict[str, Any]:
    """The numbers, with those that are made of others."""
    make = _MADE.get(code)
    return {**numbers, **(make(numbers) if make else {})}


def _ahead(numbers: Numbers) -> dict[str, str]:
    parts = [gettext(words) % {"number": numbers[key]} for key, words in _AHEAD.items() if numbers.get(key)]
    return {"why": gettext(", ").join(parts)} if parts else {}


def _hole(numbers: Numbers) -> dict[str, str]:
    if not numbers.get("needed"):
        return {}
    largest = gettext("the largest free hole is %(largest)s on %(node)s") % numbers if numbers["largest"] else ""
    return {"hole": largest or gettext("no GPU of this kind is free")}


def _amounts(numbers: Numbers) -> dict[str, str]:
    return {
        "cpu": cores(numbers["cpu_milli"]),
        "memory": memory(numbers["memory_mb"]),
        "free_cpu": cores(numbers["free_cpu_milli"]),
        "free_memory": memory(numbers["free_memory_mb"]),
    }


def _kept(numbers: Numbers) -> dict[str, Any]:
    return {"kept": numbers["gpus"]} if numbers.get("gpus") else {}


_MADE: dict[str, Callable[[Numbers], dict[str, Any]]] = {
    "order": _ahead,
    "fragmented": _hole,
    "resources": _amounts,
    "preempting": _kept,
}
