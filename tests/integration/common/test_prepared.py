"""A query whose SQL is made once finds what the query made anew finds."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.db.models import Count, F, Q, QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import Token, User
from portal.common.prepared import Among, Prepared, Slot
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db


def test_each_value_finds_its_own_rows() -> None:
    alice, bob = person("alice"), person("bob")
    named = Prepared(lambda: User.objects.filter(username=Slot("name", str)))
    assert (named(name="alice"), named(name="bob"), named(name="nobody")) == ([alice], [bob], [])
    assert named.first(name="bob") == bob
    assert named.first(name="nobody") is None


def test_values_are_taken_as_they_are() -> None:
    person("alice")
    named = Prepared(lambda: User.objects.filter(username=Slot("name", str)))
    assert named(name="' OR 1=1 --") == []
    assert named(name="%s") == []


def test_a_value_may_stand_at_several_places_and_be_a_moment() -> None:
    user, now = person("alice"), timezone.now()
    made = [
        Token.objects.create(user=user, digest=str(hours), created_at=now, expires_at=now + timedelta(hours=hours))
        for hours in (-1, 1)
    ]
    old = Prepared(
        lambda: Token.objects.filter(expires_at__lt=Slot("now", datetime), user_id=Slot("user", int)).order_by("id")
    )
    assert old(now=now, user=user.pk) == [made[0]]
    assert old(now=now + timedelta(hours=2), user=user.pk) == made
    assert old(now=now + timedelta(hours=2), user=user.pk + 1) == []


def test_a_value_may_be_a_fraction() -> None:
    alice = person("alice")
    halved = Prepared(lambda: User.objects.annotate(part=F("pk") * Slot("share", float)).values_list("part", flat=True))
    assert [halved(share=share) for share in (0.5, 2.0)] == [[alice.pk / 2], [alice.pk * 2]]


def test_rows_are_tuples_single_values_or_instances_with_what_comes_along() -> None:
    user = person("alice")
    Token.objects.create(user=user, digest="one", name="laptop", created_at=timezone.now())
    pairs = Prepared(lambda: Token.objects.filter(user_id=Slot("user", int)).values_list("name", "user__username"))
    flat = Prepared(lambda: Token.objects.filter(user_id=Slot("user", int)).values_list("name", flat=True))
    assert pairs(user=user.pk) == [("laptop", "alice")]
    assert flat(user=user.pk) == ["laptop"]
    (token,) = Prepared(lambda: Token.objects.filter(user_id=Slot("user", int)).select_related("user"))(user=user.pk)
    with CaptureQueriesContext(connection) as queries:
        assert token.user == user
    assert len(queries) == 0
    (found,) = Prepared(lambda: User.objects.filter(pk=Slot("user", int)).prefetch_related("tokens"))(user=user.pk)
    assert [one.digest for one in found.tokens.all()] == ["one"]


def test_among_takes_any_number_of_values() -> None:
    people = [person(f"user{number}") for number in range(5)]

    def counted() -> QuerySet[User, tuple[str, int]]:
        some = User.objects.filter(Q(Among("id", "users")) | Q(username=Slot("name", str))).order_by("id")
        return some.values_list("username").annotate(Count("tokens"))

    some = Prepared(counted)
    assert some(users=[], name="") == []
    assert some(users=[people[1].pk, people[3].pk], name="user4") == [("user1", 0), ("user3", 0), ("user4", 0)]
    assert len(some(users={one.pk for one in people}, name="")) == 5


def test_a_number_that_no_column_could_hold_finds_nothing() -> None:
    person("alice")
    numbered = Prepared(lambda: User.objects.filter(pk=Slot("user", int)))
    assert numbered(user=2**63) == []
    assert numbered(user=-(2**63) - 1) == []
