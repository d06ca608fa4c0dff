"""Committed events become notices and deliveries: each event is gone through once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import F, Model
from django.db.models.fields.json import KeyTransform

from nodes.protocol.wording import told
from portal.hardware.doomed import doomed_everywhere
from portal.hardware.models import NodeEvent
from portal.jobs.models import JobEvent
from portal.notices.models import Notice, NoticeChoice, Place
from portal.notices.services.bodies import job_telling, node_telling, quota_telling
from portal.notices.services.fence import place_end, place_hold
from portal.notices.services.webhook import deliveries_make, kinds_wanted
from portal.notices.states import OF_JOB_EVENTS, OF_NODE_EVENTS, UNASKED, JobNotice, Told
from portal.teams.selectors.owners import leads_of

QUOTA = "quota"
Tell = Callable[[int, int, datetime], None]


def notices_gather(*, now: datetime) -> None:
    """Go through the events that were committed since the last time, and decide who is told."""
    _quota_look(now)
    sources: Sequence[tuple[str, type[Model], Tell]] = [("job", JobEvent, _jobs), ("node", NodeEvent, _nodes)]
    for source, model, tell in sources:
        while _step(source, model, tell, now):
            pass


def _step(source: str, model: type[Model], tell: Tell, now: datetime) -> bool:
    """Go through so many; whether there are more up to the fence. What is decided and how far it came is one
    transaction."""
    with transaction.atomic():
        place = place_hold(source, model)
        if place is None:
            return False
        before = (place.done, place.fence, place.writers)
        first, last = place.done, place_end(place, model)
        if last > first:
            tell(first, last, now)
            place.done = last
        if before != (place.done, place.fence, place.writers):
            place.save(update_fields=["done", "fence", "writers"])
    return first < last < place.fence


# ---------------------------------------------------------------- jobs


class _Event(NamedTuple):
    """Of a job's event what decides who is told; ``notify`` is what the job's own file asks for."""

    id: int
    code: str
    job: int
    user: int
    notify: Sequence[str] | None


def _jobs(first: int, last: int, now: datetime) -> None:
    hooked = kinds_wanted()
    by_hook = {code: _first(kinds, hooked) for code, kinds in OF_JOB_EVENTS.items()}
    if not settings.EMAIL_ON and not any(by_hook.values()):
        return
    rows = JobEvent.objects.filter(pk__gt=first, pk__lte=last, code__in=OF_JOB_EVENTS).order_by("pk")
    notify = KeyTransform("notify", F("job__spec"))
    events = [_Event(*row) for row in rows.values_list("pk", "code", "job", "job__user", notify)]
    mailed = _mailed(events) if settings.EMAIL_ON else {}
    hooks = {one.id: kind for one in events if (kind := by_hook[one.code]) is not None}
    found = rows.filter(pk__in={*mailed, *hooks}).select_related("job__user", "job__vc")
    by_id = {row.pk: row for row in found.defer("job__config", "job__spec", "job__secrets_sealed")}
    Notice.objects.bulk_create(
        Notice(user=same[0].job.user, job=same[0].job, kind=kind, at=same[-1].at, message=_words(same), times=len(same))
        for (_, kind), same in _alike(mailed, by_id).items()
    )
    if settings.EMAIL_ON:
        _leads(first, last)
    deliveries_make([job_telling(kind, same, _words(same)) for (_, kind), same in _alike(hooks, by_id).items()], now)


def _leads(first: int, last: int) -> None:
    """Whoever leads a team is told of each job of it that is held since its owner is gone, whatever they chose: nobody
    else lets it run. Two queries at most."""
    rows = JobEvent.objects.filter(pk__gt=first, pk__lte=last, code="owner_gone").order_by("pk")
    held = list(rows.values_list("job", "job__vc", "at", "data"))
    leads = leads_of(vcs={vc for _, vc, *_ in held}) if held else {}
    Notice.objects.bulk_create(
        Notice(user_id=lead, job_id=job, kind=JobNotice.WARNED, at=at, message=told(data))
        for job, vc, at, data in held
        for lead in sorted(leads.get(vc, ()))
    )


def _mailed(events: Iterable[_Event]) -> dict[int, JobNotice]:
    """By event as what its job's owner is told of it."""
    events = list(events)
    chosen = dict(NoticeChoice.objects.filter(user__in={one.user for one in events}).values_list("user", "kinds"))
    found = {one.id: _wish(one, chosen.get(one.user)) for one in events}
    return {event: kind for event, kind in found.items() if kind is not None}


def _wish(event: _Event, chosen: Sequence[str] | None) -> JobNotice | None:
    if chosen is None:
        chosen = OF_JOB_EVENTS[event.code] if event.code in UNASKED else ()
    wanted = {*chosen, *(event.notify or ())}
    return next((kind for kind in OF_JOB_EVENTS[event.code] if kind in wanted), None)


def _first(kinds: Sequence[JobNotice], hooked: frozenset[str]) -> Told | None:
    return next((Told(f"job.{kind}") for kind in kinds if f"job.{kind}" in hooked), None)


def _alike(kinds: Mapping[int, Any], events: Mapping[int, JobEvent]) -> dict[tuple[int, Any], list[JobEvent]]:
    """The same of several tasks of a job is one thing to tell; an attempt's preemption may come twice."""
    found: dict[tuple[int, Any], list[JobEvent]] = defaultdict(list)
    for key, kind in kinds.items():
        found[events[key].job_id, kind].append(events[key])
    return found


def _words(same: Sequence[JobEvent]) -> str:
    more = len(same) - 1
    return same[-1].message + (f" (And {more} more like it.)" if more else "")


# ---------------------------------------------------------------- nodes and quotas


def _nodes(first: int, last: int, now: datetime) -> None:
    hooked = kinds_wanted()
    codes = [code for code, kind in OF_NODE_EVENTS.items() if kind in hooked]
    if codes:
        rows = NodeEvent.objects.filter(pk__gt=first, pk__lte=last, code__in=codes).order_by("pk")
        deliveries_make([node_telling(OF_NODE_EVENTS[row.code], row) for row in rows.select_related("node")], now)


def _quota_look(now: datetime) -> None:
    """Which teams' quota could not be had is worked out anew each time: told is what differs from what was told."""
    hooked = kinds_wanted()
    found = doomed_everywhere() if {Told.QUOTA_AT_RISK, Told.QUOTA_SAFE} & hooked else None
    if found is None:
        return
    doomed = {vc: [[one.chain, one.cell_type, one.cells] for one in cells] for vc, cells in found.items() if cells}
    with transaction.atomic():
        Place.objects.get_or_create(pk=QUOTA)
        place = Place.objects.select_for_update().get(pk=QUOTA)
        changed = sorted(vc for vc in {*doomed, *place.told} if doomed.get(vc) != place.told.get(vc))
        if changed:
            tellings = (quota_telling(vc, found.get(vc, []), now) for vc in changed)
            deliveries_make([one for one in tellings if one.kind in hooked], now)
            Place.objects.filter(pk=QUOTA).update(told=doomed)
