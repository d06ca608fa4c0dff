"""Choices of virtual clusters on forms."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.teams.selectors.visible import vc_restrict

ANY = _("Any virtual cluster")


def vc_choices(*, user: User, action: Action = Action.VC_READ, every: Any = ANY) -> list[Any]:
    """Those on which the user may do this, by name, below ``every``."""
    names = vc_restrict(user=user, action=action).values_list("name", flat=True)
    return [("", every), *((name, name) for name in names)]
