"""Scenes that take long to build: built once for a file, and found as they were by each of its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

T = TypeVar("T")


class Kept(Generic[T]):
    """What ``build`` returns, and what it left in the database and in Redis, both of which are emptied again.

    The rows lie in tables of their own, so that no type of any column has to be understood.
    """

    def __init__(self, build: Callable[[], T], redis: RedisServer) -> None:
        from django.db import connection

        from tests.support.run.emptying import database_empty, tables_filled

        self._redis = redis
        self._copies: dict[str, str] = {}
        with redis.client() as client:
            client.flushall()
            self._made = build()
            self._keys = {key: (client.pttl(key), client.dump(key)) for key in client.scan_iter()}
            client.flushall()
        with connection.cursor() as cursor:
            for number, table in enumerate(tables_filled(connection)):
                self._copies[table] = f"kept_{number}"
                cursor.execute(f"CREATE TABLE kept_{number} AS SELECT * FROM {connection.ops.quote_name(table)}")
        database_empty(connection)

    def again(self) -> T:
        """The scene in the empty database and Redis of a test, and the objects that go with it."""
        from django.db import connection, transaction

        with transaction.atomic(), connection.cursor() as cursor:
            for table, copy in self._copies.items():
                cursor.execute(f"INSERT INTO {connection.ops.quote_name(table)} SELECT * FROM {copy}")
        with self._redis.client() as client:
            for key, (left_ms, value) in self._keys.items():
                client.restore(key, max(left_ms, 0), value)
        return deepcopy(self._made)

    def drop(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            for copy in self._copies.values():
                cursor.execute(f"DROP TABLE {copy}")


def kept_scene(build: Callable[[], T]) -> Any:
    """A fixture for a module. Its tests use real transactions, and call ``again`` of what it gives before they do
    anything else. For scenes whose moment does not matter: the last test finds it as old as the module has run.
    """

    @pytest.fixture(scope="module")
    def kept(
        running_redis: RedisServer, django_db_setup: None, django_db_blocker: DjangoDbBlocker
    ) -> Iterator[Kept[T]]:
        with django_db_blocker.unblock():
            made = Kept(build, running_redis)
        yield made
        with django_db_blocker.unblock():
            made.drop()

    return kept
