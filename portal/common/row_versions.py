"""Rows that are asked for every second though few of them change: only those that have are read.

PostgreSQL says of each row which transaction wrote it (``xmin``). A transaction leaves one version of a row, so key and
``xmin`` together name exactly what the row holds. The versions of ten thousand rows are one text, which takes a tenth
of the time that the rows take. Two things could make one name mean two versions, and then none is believed:

- A transaction that still writes may change a row twice: what it reads itself has no name yet.
- A server that has lost transactions which were seen gives their numbers again: another that took the place of this
  one, or this one after a crash where commits are not waited for (``synchronous_commit`` off). A name is good as long
  as one server runs, and nowhere if commits are not waited for.

SQLite has no such names: all rows are read and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
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
"""Where versions are good; empty in a transaction that has written, and where a crash may lose what was seen."""


class _Kept(NamedTuple):
    """What the last reading found: the rows' versions, also as the one text that they came in where they did, and the
    rows."""

    server: str
    text: str | None
    versions: frozenset[str]
    rows: dict[Any, Row]


class KeptRows(Generic[Key]):
    """The rows of a query, by the key in the first of their columns. A row that is as it was is the same tuple as in
    the last reading, and where all are, so is the dictionary, which nobody may change.

    The query may join only what never changes: versions are those of its own table's rows. ``key`` makes a key of its
    text.
    """

    def __init__(
        self, query: Callable[[], QuerySet[Any]], columns: Sequence[Any], *, key: Callable[[str], Key]
    ) -> None:
        self._query, self._columns, self._key = query, columns, key
        self._all = Prepared(lambda: self._named(query()))
        self._some = Prepared(lambda: self._named(query().filter(Among("pk", "keys"))))
        # In one piece, since several threads may read: each starts from what it finds here.
        self._kept = _Kept("", None, frozenset(), {})

    def read(self) -> dict[Key, Row]:
        """The rows as the caller's transaction sees them."""
        last = self._kept
        if connection.vendor != "postgresql":
            kept = last._replace(rows=_as_before(last.rows, self._query().values_list(*self._columns)))
        else:
            kept = self._by_version(last)
        self._kept = kept
        return kept.rows

    def _by_version(self, last: _Kept) -> _Kept:
        ((server, text),) = planned(self._statement)
        if not server or server != last.server:
            found = self._split(self._all())
            rows = _as_before(last.rows, (row for _, row in found))
            return _Kept(server, None, frozenset(version for version, _ in found), rows)
        return last if text == last.text else self._changed(last, text)

    def _changed(self, last: _Kept, text: str) -> _Kept:
        versions = frozenset(text.split(",")) if text else frozenset()
        new, gone = versions - last.versions, last.versions - versions
        # Each is read with its version: without a snapshot it may be another one already.
        found = self._split(self._some(keys=[*map(self._key_of, new)])) if new else []
        rows = dict(last.rows)
        for version in gone:
            del rows[self._key_of(version)]
        rows |= _as_before(last.rows, (row for _, row in found))
        read = (versions - new).union(version for version, _ in found)
        return _Kept(last.server, text if read == versions else None, read, last.rows if rows == last.rows else rows)

    def _named(self, query: QuerySet[Any]) -> QuerySet[Any, Row]:
        return query.values_list(_version(query.model), *self._columns)

    @staticmethod
    def _split(rows: Iterable[Row]) -> list[tuple[str, Row]]:
        return [(row[0], row[1:]) for row in rows]

    def _key_of(self, version: str) -> Key:
        return self._key(version.partition(" ")[0])

    @cached_property
    def _statement(self) -> str:
        """For all versions; made once, since that takes longer than the database takes for it."""
        query = self._query().order_by()
        sql, _ = with_literals(*query.values_list(_version(query.model)).query.sql_with_params())
        return f"SELECT {SERVER}, coalesce(string_agg(name, ','), '') FROM ({sql}) AS found (name)"  # noqa: S608


def _as_before(last: dict[Any, Row], rows: Iterable[Row]) -> dict[Any, Row]:
    """These rows; tuples and dictionary are those of the last reading where they are equal."""
    found = {}
    for row in rows:
        before = last.get(row[0])
        found[row[0]] = before if before == row else row
    return last if found == last else found


def _version(model: type[Model]) -> RawSQL:
    return RawSQL(_version_sql(model), (), output_field=TextField())  # noqa: S611


def _version_sql(model: type[Model]) -> str:
    table = model._meta.db_table
    return f"{table}.{model._meta.pk.column}::text || ' ' || {table}.xmin::text"


def tables_version(*models: type[Model]) -> str | None:
    """A text that is the same as long as all rows of these (small) tables are; None where nothing can be said."""
    if connection.vendor != "postgresql":
        return None
    ((server, *texts),) = planned(_tables_statement(models))
    return "\n".join([server, *texts]) if server else None


@cache
def _tables_statement(models: tuple[type[Model], ...]) -> str:
    texts = (
        f"(SELECT coalesce(string_agg({_version_sql(one)}, ','), '') FROM {one._meta.db_table})"  # noqa: S608
        for one in models
    )
    return f"SELECT {SERVER}, {', '.join(texts)}"


class KeptResult(Generic[Value]):
    """What was made of rows, as long as ``version`` gives the same text for them: of all rows that ``make`` reads, but
    for what never changes without one of these."""

    def __init__(self, version: Callable[[], str | None], make: Callable[[], Value]) -> None:
        self._version, self._make = version, make
        self._kept: tuple[str, Value] | None = None

    def read(self) -> Value:
        """The last one or a new one; nobody may change it. The version is read first: what was then made of newer rows
        is made once more by the next reading."""
        version, last = self._version(), self._kept
        if version is None:
            return self._make()
        if last is None or last[0] != version:
            last = self._kept = version, self._make()
        return last[1]


class RowsVersion:
    """A text that is the same as long as each of these queries (of tables with numbers for keys) finds the same rows,
    and each is as it was; None where nothing can be said. Ten thousand versions are one number, by a hash that needs no
    order; the queries are not joined, which would take longer than to read them."""

    def __init__(self, *queries: Callable[[], QuerySet[Any]]) -> None:
        self._queries = queries

    def __call__(self) -> str | None:
        if connection.vendor != "postgresql":
            return None
        ((server, *texts),) = planned(self._statement)
        return "\n".join([server, *texts]) if server else None

    @cached_property
    def _statement(self) -> str:
        """Made once, since that takes longer than the database takes for it."""
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
    """A copy without some and with others: ten thousand are copied in the time in which a few hundred are looked at."""
    after = dict(before)
    for key in gone:
        after.pop(key, None)
    after.update(new)
    return after
