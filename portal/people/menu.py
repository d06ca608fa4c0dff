"""Entries of the "Manage" menu that the reader may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, Relation, allowed_everywhere
from portal.teams.selectors.visible import vcs_of


@dataclass(frozen=True, slots=True)
class Entry:
    """A page by its URL name, and the right that shows it; None: everybody, as the page shows each what concerns
    them."""

    name: str
    label: Any
    right: Action | None = None


ENTRIES = (
    Entry("vcs", _("Virtual clusters")),
    Entry("users", _("Users"), Action.USER_READ),
    Entry("groups", _("Groups"), Action.GROUP_READ),
    Entry("alerts", _("Alerts"), Action.ALERT_READ),
    Entry("storages", _("Storages")),
    Entry("images", _("Images")),
    Entry("skus", _("Hardware kinds")),
    Entry("configuration", _("Cluster configuration"), Action.CLUSTER_CONFIGURE),
    Entry("audit", _("Audit log"), Action.AUDIT_READ),
    Entry("idle", _("Idle GPUs")),
    Entry("webhook", _("Webhook"), Action.WEBHOOK_READ),
    Entry("settings", _("Settings"), Action.SETTINGS_READ),
)


def manage_menu(request: HttpRequest) -> dict[str, Any]:
    """Context processor with the user's entries; lazy: at most one query, none if no template uses it."""
    return {"manage_menu": SimpleLazyObject(lambda: _entries(getattr(request, "user", None)))}


def _entries(user: Any) -> list[Entry]:
    if not isinstance(user, User):
        return []
    everywhere = {entry.right for entry in ENTRIES if entry.right and allowed_everywhere(user, entry.right)}
    leads_count = {entry.right for entry in ENTRIES if entry.right and Relation.LEAD in ALLOWED[entry.right]}
    led = leads_count - everywhere and vcs_of(user=user, relations=[Relation.LEAD]).exists()
    shown = everywhere | (leads_count if led else set())
    return [entry for entry in ENTRIES if entry.right is None or entry.right in shown]
