"""Empties the database after a test that commits: only what has rows, in one transaction, in any order."""

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

KEPT = {"django_migrations", "django_content_type", "auth_permission"}
"""Made by the migrations, and the same for every test."""


def quick_flush() -> None:
    """Django's own way cuts every table off and then makes content types and permissions anew: most of the time of a
    short test."""

    def empty(case: TransactionTestCase) -> None:
        for alias in case._databases_names(include_mirrors=False):  # type: ignore[attr-defined]
            database_empty(connections[alias])

    TransactionTestCase._fixture_teardown = empty  # type: ignore[attr-defined]


def tables_filled(connection: BaseDatabaseWrapper) -> list[str]:
    """The tables that have rows, but for those that the migrations fill."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # To plan this takes PostgreSQL ten times as long as to do it. What was prepared can be gone: a driver
            # may tidy up.
            cursor.execute("SELECT 1 FROM pg_prepared_statements WHERE name = 'tables_filled'")
            if not cursor.fetchone():
                cursor.execute(f"PREPARE tables_filled AS {_filled(connection)}")
            cursor.execute("EXECUTE tables_filled")
        else:
            cursor.execute(_filled(connection))
        return [table for (table,) in cursor.fetchall()]


def _filled(connection: BaseDatabaseWrapper) -> str:
    quoted = connection.ops.quote_name
    tables = set(connection.introspection.django_table_names(include_views=False)) - KEPT
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {quoted(table)})" for table in tables)


def database_empty(connection: BaseDatabaseWrapper) -> None:
    # Every foreign key is checked at the commit, so that the order of the tables does not matter.
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for table in tables_filled(connection):
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
