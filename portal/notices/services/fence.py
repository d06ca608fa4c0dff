"""Reading a table of events from where the last reading ended, and missing none.

Ids are given in order, but rows appear when their transactions commit, in any order: a reader that goes by the largest
id it sees would pass by the rows of a transaction that takes longer. So the end of a reading, the fence, is set at the
largest id there is, and the transactions that write the table at that moment are noted: whoever was given an id up to
the fence and has not committed is among them. Once none of them writes any more, every row up to the fence is there or
never will be. It is how PostgreSQL builds an index without locking the table. Writers do nothing for it.

SQLite has one writer at a time: ids appear in order.
"""

from __future__ import annotations

from django.db import connection
from django.db.models import Max, Model

from portal.notices.models import Place

AT_ONCE = 5_000
"""Rows that one transaction goes through."""

_WRITERS = """
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = CAST(%s AS regclass)
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


def place_hold(source: str, model: type[Model]) -> Place | None:
    """The place, held until the caller's transaction ends; None while another holds it. The first time it stands at
    the table's end."""
    place = Place.objects.select_for_update(skip_locked=True).filter(pk=source).first()
    if place is not None:
        return place
    end = _end(model)
    place, made = Place.objects.get_or_create(pk=source, defaults={"done": end, "fence": end})
    return place if made else None


def place_end(place: Place, model: type[Model]) -> int:
    """To which row the table may be read now, the place's own where there is nothing to read."""
    if place.fence <= place.done:
        place.fence = max(_end(model), place.done)
        place.writers = _writers(model) if place.fence > place.done else []
    if place.writers:
        place.writers = sorted({*place.writers} & {*_writers(model)})
    return place.done if place.writers else min(place.fence, place.done + AT_ONCE)


def _end(model: type[Model]) -> int:
    return int(model._default_manager.aggregate(end=Max("pk"))["end"] or 0)


def _writers(model: type[Model]) -> list[str]:
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(_WRITERS, [model._meta.db_table])
        return sorted(name for (name,) in cursor.fetchall())
