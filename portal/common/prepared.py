"""Queries that are asked again and again with other values: their SQL is made once, and PostgreSQL plans it once for
each connection. Django takes longer to make the SQL of a join or two than PostgreSQL takes to answer it, and PostgreSQL
takes longer to find an order for eight joins than to follow it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar, cast
from uuid import UUID

from django.db import connection
from django.db.models import (
    BigIntegerField,
    BooleanField,
    DateTimeField,
    Expression,
    F,
    Field,
    FloatField,
    Func,
    QuerySet,
    TextField,
    UUIDField,
)
from psycopg import ClientCursor, Cursor
from psycopg.sql import Literal

Row = TypeVar("Row")

LARGEST = 2**63
_FIELDS: dict[type, type[Field[Any, Any]]] = {
    datetime: DateTimeField,
    float: FloatField,
    int: BigIntegerField,
    str: TextField,
    UUID: UUIDField,
}


class Slot(Expression):
    """Where a value will stand in a ``Prepared`` query: ``filter(user_id=Slot("user", int))``. Never where None may."""

    def __init__(self, name: str, kind: type) -> None:
        super().__init__(output_field=_FIELDS[kind]())
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]

    def value(self, values: dict[str, Any]) -> Any:
        """The value as the database takes it."""
        return self.output_field.get_db_prep_value(values[self.name], connection, prepared=False)


class Among(Func):
    """Whether a column's value is one of those in a slot: ``filter(Among("id", "ids"))``. However many
    there are, they are one parameter."""

    output_field = BooleanField()

    def __init__(self, column: str, name: str) -> None:
        super().__init__(F(column))
        self.name = name

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        column, parameters = compiler.compile(self.get_source_expressions()[0])
        field = self.get_source_expressions()[0].output_field
        kind = (getattr(field, "target_field", None) or field).rel_db_type(connection)
        if connection.vendor == "postgresql":
            return f"{column} = ANY(CAST(%s AS {kind}[]))", [*parameters, self]
        return f"{column} IN (SELECT value FROM json_each(%s))", [*parameters, self]

    def value(self, values: dict[str, Any]) -> Any:
        """The values as the database takes them."""
        found = list(values[self.name])
        if connection.vendor != "postgresql":
            return json.dumps(found, default=_as_sqlite_has_it)
        # As a text, whose type is always the same, where a list's is that of its largest number.
        return found if any(isinstance(one, str) for one in found) else f"{{{','.join(map(str, found))}}}"


def _as_sqlite_has_it(value: UUID) -> str:
    return value.hex


class _Made(NamedTuple):
    """A query's SQL for one kind of database, with what Django found out about it on the way."""

    rows: QuerySet[Any, Any]
    compiler: Any
    sql: str
    slots: Sequence[Any]


class Prepared(Generic[Row]):
    """``query`` makes the query with a ``Slot`` for each value that differs; it is asked for once for each kind of
    database. Rows are whatever the query gives: instances, tuples, single values, with what it fetches beside them."""

    def __init__(self, query: Callable[[], QuerySet[Any, Row]]) -> None:
        self._query = query
        self._made: dict[str, _Made] = {}

    def __call__(self, **values: Any) -> list[Row]:
        """The rows for these values; none where a number is larger than any column's."""
        if any(isinstance(value, int) and not -LARGEST <= value < LARGEST for value in values.values()):
            return []
        made = self._made.get(connection.vendor) or self._make()
        parameters = tuple(one.value(values) if isinstance(one, Slot | Among) else one for one in made.slots)
        found = _found(made.compiler, made.sql, parameters)
        if not found:
            return []
        compiler, query, rows = copy(made.compiler), copy(made.rows.query), made.rows.all()
        compiler.connection = connection
        compiler.execute_sql = lambda *_, **__: [found]
        query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        # Past the setter, which would have dictionaries made of what values_list makes tuples of.
        rows.__dict__["_query"] = query
        return cast(list[Row], list(rows))

    def first(self, **values: Any) -> Row | None:
        """The only row, or the first; None where there is none. The query should say how many it wants."""
        return next(iter(self(**values)), None)

    def _make(self) -> _Made:
        rows = self._query()
        compiler = rows.query.get_compiler(using=rows.db)
        sql, parameters = compiler.as_sql()
        if connection.vendor == "postgresql":
            sql, parameters = with_literals(sql, parameters)
        made = self._made[connection.vendor] = _Made(rows, compiler, sql, parameters)
        return made


def with_literals(sql: str, parameters: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The statement with only its slots left open: a plan for any value could not use an index of the rows of one
    state."""
    parts, slots = re.split(r"(?<!%)%s", sql), []
    told = [parts[0]]
    for one, rest in zip(parameters, parts[1:], strict=True):
        if isinstance(one, Slot | Among):
            slots.append(one)
            told.append("%s")
        else:
            told.append(Literal(one).as_string(connection.connection).replace("%", "%%"))
        told.append(rest)
    return "".join(told), slots


class _Planned(Cursor[Any]):
    """Has the database keep the statement's plan."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        done = super().execute(query, params, prepare=True, **more)
        if connection.queries_logged:  # what was sent is the plan's name
            text = ClientCursor(self.connection).mogrify(query, params)
            self._query = cast(Any, SimpleNamespace(query=text.encode()))
        return done


def planned(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows that a statement finds; PostgreSQL keeps its plan for the next time."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.cursor = _Planned(connection.connection)
        cursor.execute(sql, parameters)
        return cast(list[tuple[Any, ...]], cursor.fetchall())


def _found(compiler: Any, sql: str, parameters: Sequence[Any]) -> list[Any]:
    rows = planned(sql, parameters)
    return [row[: compiler.col_count] for row in rows] if compiler.has_extra_select else rows
