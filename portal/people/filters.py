"""Filters of lists of people."""

from __future__ import annotations

import django_filters
from django.db.models import Q, QuerySet

from portal.accounts.models import ClusterRole, User
from portal.common.filters import ChoicesFilter, GivenFilter, truth_filter
from portal.teams.models import Membership


class UserFilter(GivenFilter):
    """Filters of the list of users, for page and API."""

    of = User

    text = django_filters.CharFilter(method="with_text", help_text="part of the name or of the e-mail address")
    active = truth_filter(field_name="is_active", help_text="false: disabled accounts")
    role = ChoicesFilter(choices=ClusterRole.choices, help_text="one or several")
    vc = django_filters.CharFilter(method="with_vc", help_text="in this virtual cluster, also by a group")
    group = django_filters.CharFilter(method="with_group", help_text="in this group")

    def with_text(self, rows: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        return rows.filter(Q(username__icontains=value) | Q(email__icontains=value))

    def with_vc(self, rows: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        held = Membership.objects.filter(vc__name=value, vc__removed_at=None)
        by_group = User.objects.filter(groups__in=held.values("group")).values("pk")
        return rows.filter(Q(pk__in=held.values("user")) | Q(pk__in=by_group))

    def with_group(self, rows: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        return rows.filter(groups__name=value)
