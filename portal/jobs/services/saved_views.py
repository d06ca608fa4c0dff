"""Saved filters of the job list, private to each user. Not audited: nothing depends on them."""

from __future__ import annotations

from django.utils.translation import gettext

from portal.accounts.models import User
from portal.common.errors import Conflict, NotFound
from portal.jobs.models import SavedView

MOST = 50


def view_save(*, user: User, name: str, query: str) -> SavedView:
    """Saves the filters under this name, replacing the user's view of that name. Raises Conflict if there are too
    many."""
    if SavedView.objects.filter(user=user).exclude(name=name).count() >= MOST:
        raise Conflict(gettext("You have %(most)s views already; remove one that you do not need.") % {"most": MOST})
    view, _ = SavedView.objects.update_or_create(user=user, name=name, defaults={"query": query})
    return view


def view_forget(*, user: User, view_id: int) -> None:
    """Deletes one of the user's views. Raises NotFound."""
    gone, _ = SavedView.objects.filter(user=user, pk=view_id).delete()
    if not gone:
        raise NotFound("view", view_id)
