"""Caches of rows that are read every second though few of them change: only changed ones are fetched.

PostgreSQL stores with each row the transaction that wrote it (``xmin``). A transaction leaves one version of a row, so
key and ``xmin`` together identify its content. The versions of ten thousand rows are fetched as one text, in a tenth of
the time that the rows take. They are not trusted where one could stand for two contents:

- A transaction that is still writing may change a row twice: its own reads have no valid versions.
- A server that has lost transactions which were seen reuses their numbers: another server in the place of this one, or
  this one after a crash with ``synchronous_commit`` off. So versions hold while one server runs, and never with that
  setting off.

SQLite has no such versions: all rows are read and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import connection
from django.db.models import Model, QuerySet, TextField
from django.db.models.expressions import RawSQL

from portal.common.prepared import Among, Prepared, planned, with_literals

Key = TypeVar("Key")
Value = TypeVar("Value")
Row = tuple[Any, ...]

SERVER = (
    "CASE WHEN pg_current_xact_id_if_assigned() IS NULL AND current_setting('synchronous_commit') <> 'off' "
    "THEN pg_postmaster_start_time()::text ELSE '' END"
)
"""SQL for the scope in which versions hold; empty in a transaction that has written, and where a crash may lose
commits."""


class _Kept(NamedTuple):
    """The last reading: the rows' versions, also as the text they came in if they did, and what the rows became."""

    server: str
    text: str | None
    versions: frozenset[str]
    rows: dict[Any, Any]


class KeptRows(Generic[Key, Value]):
    """A cached query: what ``make`` turns its rows into, by the key in their first column. An unchanged row is the same
    object as in the last reading, and if all are unchanged so is the dictionary; callers must not modify it.

    The query may only join what never changes: versions cover its own table's rows. ``key`` parses a key from text.
    """

    def __init__(
        self,
        query: Callable[[], QuerySet[Any]],
        columns: Sequence[Any],
        *,
        key: Callable[[str], Key],
        make: Callable[[Row], Value],
    ) -> None:
        self._query, self._columns, self._key, self._make = query, columns, key, make
        self._all = Prepared(lambda: self._named(query()))
        self._some = Prepared(lambda: self._named(query().filter(Among("pk", "keys"))))
        # Replaced as a whole: several threads may read, each from the value that it finds.
        self._kept = _Kept("", None, frozenset(), {})

    def read(self) -> dict[Key, Value]:
        """The rows as of the caller's transaction."""
        last = self._kept
        if connection.vendor != "postgresql":
            kept = last._replace(rows=self._whole(last, self._query().values_list(*self._columns)))
        else:
            kept = self._by_version(last)
        self._kept = kept
        return kept.rows

    def _by_version(self, last: _Kept) -> _Kept:
        ((server, text),) = planned(self._statement)
        if not server or server != last.server:
            found = self._split(self._all())
            rows = self._whole(last, (row for _, row in found))
            return _Kept(server, None, frozenset(version for version, _ in found), rows)
        return last if text == last.text else self._changed(last, text)

    def _changed(self, last: _Kept, text: str) -> _Kept:
        versions = frozenset(text.split(",")) if text else frozenset()
        new, gone = versions - last.versions, last.versions - versions
        # Each comes with its version: outside a snapshot it may have changed since.
        found = self._split(self._some(keys=[*map(self._key_of, new)])) if new else []
        rows = dict(last.rows)
        for version in gone:
            del rows[self._key_of(version)]
        rows |= self._made(last, (row for _, row in found))
        read = (versions - new).union(version for version, _ in found)
        return _Kept(last.server, text if read == versions else None, read, last.rows if rows == last.rows else rows)

    def _made(self, last: _Kept, rows: Iterable[Row]) -> dict[Key, Value]:
        """These rows by key; the last reading's objects where they are equal."""
        made = {row[0]: self._make(row) for row in rows}
        return {key: before if (before := last.rows.get(key)) == one else one for key, one in made.items()}

    def _whole(self, last: _Kept, rows: Iterable[Row]) -> dict[Key, Value]:
        """All rows by key; the last reading's dictionary if it is equal."""
        made = self._made(last, rows)
        return last.rows if made == last.rows else made

    def _named(self, query: QuerySet[Any]) -> QuerySet[Any, Row]:
        return query.values_list(_version(query.model), *self._columns)

    @staticmethod
    def _split(rows: Iterable[Row]) -> list[tuple[str, Row]]:
        return [(row[0], row[1:]) for row in rows]

    def _key_of(self, version: str) -> Key:
        return self._key(version.partition(" ")[0])

    @cached_property
    def _statement(self) -> str:
        """Selects all versions; cached, since compiling it takes longer than running it."""
        query = self._query().order_by()
        sql, _ = with_literals(*query.values_list(_version(query.model)).query.sql_with_params())
        return f"SELECT {SERVER}, coalesce(string_agg(name, ','), '') FROM ({sql}) AS found (name)"  # noqa: S608


def _version(model: type[Model]) -> RawSQL:
    table = model._meta.db_table
    sql = f"{table}.{model._meta.pk.column}::text || ' ' || {table}.xmin::text"
    return RawSQL(sql, (), output_field=TextField())  # noqa: S611


class KeptResult(Generic[Value]):
    """Caches a result made of rows, as long as ``version`` returns the same text: it must cover all rows that ``make``
    reads, except those that never change without one of these."""

    def __init__(self, version: Callable[[], str | None], make: Callable[[], Value]) -> None:
        self._version, self._make = version, make
        self._kept: tuple[str, Value] | None = None

    def read(self) -> Value:
        """The cached or a new result; callers must not modify it. The version is read first: a result made of newer
        rows is merely made once more next time."""
        version, last = self._version(), self._kept
        if version is None:
            return self._make()
        if last is None or last[0] != version:
            last = self._kept = version, self._make()
        return last[1]


class RowsVersion:
    """Callable that returns a text which changes whenever a row that one of these queries (on tables with integer keys)
    finds does; None if unknown. Ten thousand versions become one number, by an order-independent hash; the queries are
    not joined, which would take longer."""

    def __init__(self, *queries: Callable[[], QuerySet[Any]]) -> None:
        self._queries = queries

    def __call__(self) -> str | None:
        if connection.vendor != "postgresql":
            return None
        ((server, *texts),) = planned(self._statement)
        return "\n".join([server, *texts]) if server else None

    @cached_property
    def _statement(self) -> str:
        """Cached, since compiling it takes longer than running it."""
        texts = [
            f"(SELECT count(*)::text || ' ' || coalesce(bit_xor(hash), 0)::text FROM ({sql}) AS found (hash))"  # noqa: S608
            for sql in (_hashes(query()) for query in self._queries)
        ]
        return f"SELECT {SERVER}, {', '.join(texts)}"


def _hashes(query: QuerySet[Any]) -> str:
    table, key = query.model._meta.db_table, query.model._meta.pk.column
    hashed = f"hashint8extended({table}.{key}, {table}.xmin::text::bigint)"
    rows = query.order_by().values_list(RawSQL(hashed, (), output_field=TextField()))  # noqa: S611
    return with_literals(*rows.query.sql_with_params())[0]


def changed(before: Mapping[Key, Value], gone: Iterable[Key], new: Mapping[Key, Value]) -> dict[Key, Value]:
    """A copy of ``before`` without the keys ``gone`` and with ``new``: copying ten thousand takes as long as looking at
    a few hundred."""
    after = dict(before)
    for key in gone:
        after.pop(key, None)
    after.update(new)
    return after
