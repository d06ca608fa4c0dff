"""Request body of a new account; a row of an import file has the same fields."""

from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy
from rest_framework import serializers

from portal.accounts.models import ClusterRole
from portal.common.serializers import Body, Text, Whole

LARGEST_ID = 2**31 - 1
MOST_IDS = 64
MOST_NAMES = 200
USER_NAME = RegexValidator(r"^[A-Za-z0-9_.-]+\Z", gettext_lazy("Letters, digits, dot, dash and underscore only."))


def whole_id(words: str, **more: Any) -> Whole:
    """A field for a uid or gid; never 0, which is root's."""
    return Whole(min_value=1, max_value=LARGEST_ID, allow_null=True, help_text=words, **more)


def ids(**more: Any) -> Any:
    return serializers.ListField(child=Whole(min_value=1, max_value=LARGEST_ID), max_length=MOST_IDS, **more)


def names(**more: Any) -> Any:
    return serializers.ListField(child=Text(max_length=150), max_length=MOST_NAMES, **more)


class UserBody(Body):
    username = Text(max_length=64, validators=[USER_NAME], help_text="letters, digits, dot, dash and underscore")
    password = Text(
        max_length=1000, trim_whitespace=False, write_only=True, allow_null=True, default=None,
        help_text="null: nobody signs in by a password until one is given",
    )  # fmt: skip
    email = serializers.EmailField(max_length=254, allow_blank=True, default="")
    role = serializers.ChoiceField(ClusterRole.choices, default=ClusterRole.USER)
    uid = whole_id("that containers run with on storages; of this account only. null: one of its own", default=None)
    gid = whole_id("the group of that; null: of the same number, where uid is null too", default=None)
    extra_gids = ids(default=list, help_text="further groups")
    groups = names(default=list, help_text="groups to be in")
    virtual_clusters = names(default=list, help_text="virtual clusters to be a member of")
