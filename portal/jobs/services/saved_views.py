"""Filters of the list of jobs under a name, each user's own. Nobody else sees them, and nothing hangs on them: the
audit log does not tell of them."""

from __future__ import annotations

from django.utils.translation import gettext

from portal.accounts.models import User
from portal.common.errors import Conflict, NotFound
from portal.jobs.models import SavedView

MOST = 50


def view_save(*, user: User, name: str, query: str) -> SavedView:
    """Keep the filters under this name, in place of what the user had there. Raises Conflict where there are too
    many."""
    if SavedView.objects.filter(user=user).exclude(name=name).count() >= MOST:
        raise Conflict(gettext("You have %(most)s views already; remove one that you do not need.") % {"most": MOST})
    view, _ = SavedView.objects.update_or_create(user=user, name=name, defaults={"query": query})
    return view


def view_forget(*, user: User, view_id: int) -> None:
    """Remove one of the user's views. Raises NotFound."""
    gone, _ = SavedView.objects.filter(user=user, pk=view_id).delete()
    if not gone:
        raise NotFound("view", view_id)
