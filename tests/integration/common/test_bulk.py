"""Rows that one statement writes hold what was given, whatever is in it."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone
from django.utils.safestring import mark_safe

from portal.accounts.models import AuditEntry, Token
from portal.common.bulk import keys_listed, rows_insert, rows_update
from portal.jobs.models import UsageMark
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db

WORDS = ("", "null", "it's 100 %s", 'a "quoted" \\ path', "two\nlines\tand ünï😀", "[1, 2]", "{}")


def test_texts_moments_and_missing_values_are_what_was_given() -> None:
    user, now = person("alice"), timezone.now()
    ends = [now + timedelta(hours=number) if number % 2 else None for number in range(len(WORDS))]
    rows = [
        (user.pk, f"{number}", words, now, end) for number, (words, end) in enumerate(zip(WORDS, ends, strict=True))
    ]
    rows_insert(Token, ("user", "digest", "name", "created_at", "expires_at"), rows)
    tokens = Token.objects.order_by("id")
    assert [(one.user_id, one.digest, one.name, one.created_at, one.expires_at) for one in tokens] == rows
    changed = [(one.pk, words, None) for one, words in zip(tokens, reversed(WORDS), strict=True)]
    rows_update(Token, ("name", "expires_at"), changed, only={"user": user.pk})
    assert [(one.pk, one.name, one.expires_at) for one in tokens.all()] == changed


def test_json_and_ids_are_what_was_given() -> None:
    now, data = timezone.now(), [{"words": words, "none": None, "list": [1, True]} for words in WORDS]
    rows_insert(AuditEntry, ("at", "action", "before", "after"), [(now, "change", one, [one]) for one in data])
    assert [*AuditEntry.objects.order_by("id").values_list("before", "after")] == [(one, [one]) for one in data]
    epoch = uuid4()
    rows_insert(UsageMark, ("id", "epoch"), [(1, epoch)])
    assert UsageMark.objects.get().epoch == epoch


def test_what_is_no_json_is_refused_and_a_derived_text_is_a_text() -> None:
    columns, now = ("at", "action", "before"), timezone.now()
    rows_insert(AuditEntry, columns, [(now, "change", {"words": mark_safe("<b>")})])
    assert AuditEntry.objects.get().before == {"words": "<b>"}
    rows_insert(Token, ("user", "digest", "name", "created_at"), [(person("bob").pk, "d", mark_safe("<i>"), now)])
    assert Token.objects.get().name == "<i>"
    with pytest.raises(TypeError, match="a JSON column cannot hold"):
        rows_insert(AuditEntry, columns, [(now, "change", {"words": object()})])


def test_new_rows_tell_their_keys() -> None:
    user, now = person("alice"), timezone.now()
    rows = [(user.pk, f"{number}", now) for number in range(20)]
    keys = dict(rows_insert(Token, ("user", "digest", "created_at"), rows, returning=("digest", "id")))
    assert keys == dict(Token.objects.values_list("digest", "id"))
    assert len(keys) == 20
    assert rows_insert(Token, ("user", "digest", "created_at"), [(user.pk, "more", now)]) == []


def test_no_rows_are_none() -> None:
    user = person("alice")
    assert rows_insert(Token, ("user", "digest", "created_at"), [], returning=("id",)) == []
    rows_update(Token, ("name",), [], only={"user": user.pk})
    assert not Token.objects.filter(pk__in=keys_listed(Token, [])).exists()
