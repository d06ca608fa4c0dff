"""Which images jobs may run, and who may read of it."""

from __future__ import annotations

from collections import defaultdict

from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, allowed_everywhere
from portal.common.errors import Denied, NotFound
from portal.common.prepared import Prepared
from portal.images.models import ImageRule
from portal.teams.selectors.visible import vcs_of


class ImagePatterns:
    """The patterns of all virtual clusters (VCs), read at once; empty: every image may run. One query."""

    def __init__(self) -> None:
        self._own: dict[int | None, dict[str, str]] = defaultdict(dict)
        for vc, pattern, profile in _RULES():
            self._own[vc][pattern] = profile

    def __bool__(self) -> bool:
        return bool(self._own)

    def of(self, vc_id: int) -> list[str]:
        """Those that hold in the VC: its own, else the cluster's."""
        return [*self._in(vc_id)]

    def of_root(self, vc_id: int) -> list[str] | None:
        """Of those the ones whose images may run as root where the VC allows root; None: all images may."""
        rules = self._in(vc_id)
        return [pattern for pattern, profile in rules.items() if profile == "root"] if rules else None

    def _in(self, vc_id: int) -> dict[str, str]:
        return self._own.get(vc_id) or self._own.get(None, {})


_RULES = Prepared(lambda: ImageRule.objects.order_by("pattern").values_list("vc", "pattern", "profile"))


def image_rules(*, user: User) -> QuerySet[ImageRule]:
    """The rules that the user may read: all, or the cluster's and those of one's own VCs."""
    if allowed_everywhere(user, Action.IMAGES_READ):
        return ImageRule.objects.all()
    return ImageRule.objects.filter(Q(vc=None) | Q(vc__in=vcs_of(user=user, relations=ALLOWED[Action.IMAGES_READ])))


def image_right(*, user: User) -> None:
    """Raises Denied unless the user may say which images run."""
    if not allowed_everywhere(user, Action.IMAGES_SET):
        raise Denied(gettext("Only an administrator may say which images run."))


def image_rule_to_remove(*, user: User, rule_id: int) -> ImageRule:
    """The rule. NotFound when the user may not even see it, Denied when not more than that."""
    row = image_rules(user=user).select_related("vc").filter(pk=rule_id).first()
    if row is None:
        raise NotFound("pattern", rule_id)
    image_right(user=user)
    return row
