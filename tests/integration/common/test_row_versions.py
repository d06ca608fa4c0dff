"""Rows that are kept from one reading to the next are what the database has, whatever was done to them."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import Token, User
from portal.common.row_versions import KeptResult, KeptRows, RowsVersion, changed
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db(transaction=True)


class Undone(Exception):
    """Takes a transaction back."""


class Name(NamedTuple):
    id: int
    username: str
    first_name: str


def names() -> KeptRows[int, Name]:
    active = User.objects.filter(is_active=True)
    return KeptRows(active.all, ["id", "username", "first_name"], key=int, make=Name._make)


def there() -> dict[int, Name]:
    rows = User.objects.filter(is_active=True).values_list("id", "username", "first_name")
    return {row[0]: Name._make(row) for row in rows}


def anything_happens(rng: random.Random, number: int) -> None:
    """A row is added, changed, hidden, shown again or deleted."""
    some = User.objects.filter(pk__in=rng.sample([*User.objects.values_list("pk", flat=True)] or [0], 1))
    does = rng.randrange(6)
    if does == 0 or not some:
        person(f"user{number}")
    elif does == 1:
        some.delete()
    elif does == 2:
        some.update(is_active=rng.random() < 0.7)
    elif does == 3:
        some.update(last_name=f"not asked for {number}")
    else:
        some.update(first_name=f"name{rng.randrange(3)}")


@pytest.mark.parametrize("seed", range(4))
def test_every_reading_is_what_the_query_says(seed: int) -> None:
    rng, kept = random.Random(seed), names()
    for number in range(60):
        try:
            with transaction.atomic():
                for one in range(rng.randrange(4)):
                    anything_happens(rng, 10 * number + one)
                    if rng.random() < 0.3:
                        assert kept.read() == there(), "in a transaction that has written"
                if rng.random() < 0.3:
                    raise Undone
        except Undone:
            pass
        assert kept.read() == there()


def test_rows_that_are_as_they_were_are_the_same_objects() -> None:
    anna, bert = person("anna"), person("bert")
    kept = names()
    first = kept.read()
    assert kept.read() is first
    User.objects.filter(pk=anna.pk).update(last_name="who is not asked for it")
    assert kept.read() is first
    User.objects.filter(pk=anna.pk).update(first_name="Anna")
    second = kept.read()
    assert first[anna.pk] != second[anna.pk] == (anna.pk, "anna", "Anna")
    assert second[bert.pk] is first[bert.pk]


def test_on_postgresql_an_unchanged_row_is_not_sent_again() -> None:
    for number in range(5):
        person(f"user{number}")
    kept = names()
    kept.read()
    User.objects.filter(username="user3").update(first_name="Tom")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        kept.read()
    assert len(asked) == (2 if connection.vendor == "postgresql" else 1)
    with CaptureQueriesContext(connection) as asked:
        kept.read()
    assert len(asked) == 1


def test_another_connection_goes_on_from_what_the_last_one_read() -> None:
    anna, _ = person("anna"), person("bert")
    kept = names()
    first = kept.read()
    for name in ("Anna", "Anne", "Anja"):
        connection.close()
        User.objects.filter(pk=anna.pk).update(first_name=name)
        connection.close()
        assert kept.read() == there() != first


def test_where_a_crash_may_lose_what_was_seen_every_row_is_read() -> None:
    person("anna")
    kept = names()
    kept.read()
    with CaptureQueriesContext(connection) as asked, transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
        assert kept.read() == there()
    assert sum("first_name" in query["sql"] for query in asked) == 2, "the reading's, and the one to compare with"


def test_rows_have_another_version_after_each_change_and_none_where_it_could_mean_two_things() -> None:
    anna = person("anna")
    version = RowsVersion(User.objects.all)
    versions = [version()]
    assert version() == versions[0]
    person("bert")
    versions.append(version())
    with transaction.atomic():
        anna.save()
        assert version() is None, "while it is changed"
    versions.append(version())
    assert len(set(versions)) == (3 if connection.vendor == "postgresql" else 1)


def tokens_by_user() -> dict[str, int]:
    found: dict[str, int] = {}
    for name in Token.objects.filter(revoked_at=None).values_list("user__first_name", flat=True):
        found[name] = found.get(name, 0) + 1
    return found


def tokens_kept() -> KeptResult[dict[str, int]]:
    version = RowsVersion(User.objects.all, lambda: Token.objects.filter(revoked_at=None))
    return KeptResult(version, tokens_by_user)


@pytest.mark.parametrize("seed", range(4))
def test_a_kept_result_is_what_its_rows_make_now(seed: int) -> None:
    rng, kept = random.Random(seed), tokens_kept()
    for number in range(40):
        try:
            with transaction.atomic():
                for one in range(rng.randrange(3)):
                    token_happens(rng, 10 * number + one)
                    if rng.random() < 0.3:
                        assert kept.read() == tokens_by_user(), "in a transaction that has written"
                if rng.random() < 0.3:
                    raise Undone
        except Undone:
            pass
        assert kept.read() == tokens_by_user()


def token_happens(rng: random.Random, number: int) -> None:
    """A token is added or revoked, or its user gets another name."""
    if rng.random() < 0.4 or not User.objects.exists():
        user, now = person(f"user{number}"), timezone.now()
        Token.objects.create(user=user, name="one", prefix=f"{number}", digest=f"{number}", created_at=now)
    some = User.objects.filter(pk__in=rng.sample([*User.objects.values_list("pk", flat=True)], 1))
    if rng.random() < 0.5:
        some.update(first_name=f"name{rng.randrange(3)}")
    else:
        Token.objects.filter(user__in=some).update(revoked_at=timezone.now())


def test_a_kept_result_is_made_once_as_long_as_its_rows_are_as_they_were() -> None:
    made: list[int] = []
    kept = KeptResult(RowsVersion(User.objects.all), lambda: made.append(1))
    person("anna")
    for _ in range(3):
        kept.read()
    assert len(made) == (1 if connection.vendor == "postgresql" else 3)
    person("bert")
    kept.read()
    assert len(made) == (2 if connection.vendor == "postgresql" else 4)


def test_a_changed_copy_leaves_the_original_as_it_was() -> None:
    before = {1: "one", 2: "two"}
    assert changed(before, [2, 3], {4: "four"}) == {1: "one", 4: "four"}
    assert before == {1: "one", 2: "two"}
