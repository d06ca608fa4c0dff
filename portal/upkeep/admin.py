"""Django's own administration as the back door: each row can be looked at. Nothing is changed there, past the rules and
the audit log of the services."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.http import HttpRequest

from portal.upkeep.tables import tables

SECRET = {"password", "sealed", "secrets_sealed", "spec_sealed", "secret_sealed"}
"""Columns that nobody reads, sealed or not."""
NOT_SHOWN = {"accounts.auditentry", "admin.logentry", "auth.permission", "contenttypes.contenttype"}
"""The audit log has a page of its own, for auditors too; the others are of Django itself."""
PAGE = 50


class Rows(admin.ModelAdmin):  # type: ignore[type-arg]  # of rows of any kind
    """Rows to be looked at by administrators."""

    list_per_page = PAGE
    show_full_result_count = False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Every column but secrets."""
        return [field.name for field in self.model._meta.concrete_fields if field.name not in SECRET]

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Administrators alone come here at all."""
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


admin.site.unregister(Group)
admin.site.register(
    [one for one in tables() if one._meta.label_lower not in NOT_SHOWN and not one._meta.auto_created], Rows
)
