"""Filters of the audit log."""

from __future__ import annotations

import django_filters

from portal.accounts.models import Audited, AuditEntry
from portal.common.filters import ChoicesFilter, GivenFilter, MomentFilter


class AuditFilter(GivenFilter):
    """Filters of the audit log, for page and API."""

    of = AuditEntry

    actor = django_filters.CharFilter(help_text="user name")
    action = ChoicesFilter(choices=Audited.choices, help_text="one or several")
    target = django_filters.CharFilter(help_text="exactly, such as `alice/train#7`")
    vc = django_filters.CharFilter(help_text="name of a virtual cluster")
    since = MomentFilter(field_name="at", lookup_expr="gte", help_text="then or later")
    until = MomentFilter(field_name="at", lookup_expr="lt", help_text="before")
