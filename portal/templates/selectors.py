"""Which job templates somebody may read and write."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils.translation import gettext, gettext_noop

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Denied, NotFound
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vc_restrict, vc_with_right
from portal.templates.models import JobTemplate

PUBLIC_REFUSED = gettext_noop("Only an administrator may write templates for everybody.")


def template_restrict(*, user: User) -> QuerySet[JobTemplate]:
    """The templates that the user may read: one's own, everybody's, and those of one's VCs."""
    vcs = vc_restrict(user=user, action=Action.TEMPLATE_READ)
    return JobTemplate.objects.filter(Q(user=user) | Q(user=None, vc=None) | Q(vc__in=vcs))


def template_get(*, user: User, template_id: int) -> JobTemplate:
    """The template; NotFound when there is none that the user may read."""
    found = template_restrict(user=user).select_related("user", "vc").filter(pk=template_id).first()
    if found is None:
        raise NotFound("template", template_id)
    return found


def template_to_write(*, user: User, template_id: int) -> JobTemplate:
    """The template, to change it. NotFound when the user may not even read it, Denied when not more than that."""
    found = template_get(user=user, template_id=template_id)
    if found.vc is not None:
        vc_with_right(user=user, name=found.vc.name, action=Action.TEMPLATE_WRITE)
    elif found.user is None:
        template_publish_right(user=user)
    return found


def template_home(*, user: User, vc: str | None, public: bool) -> User | VirtualCluster | None:
    """Where a new template shall be kept, if the user may write there. Raises NotFound, Denied."""
    if vc is not None:
        return vc_with_right(user=user, name=vc, action=Action.TEMPLATE_WRITE)
    if public:
        template_publish_right(user=user)
        return None
    return user


@dataclass(frozen=True, slots=True)
class TemplateHomes:
    """Where somebody may write templates: of these virtual clusters (names), of everybody, and one's own."""

    user: int
    vcs: tuple[str, ...]
    public: bool

    def covers(self, template: JobTemplate) -> bool:
        """Whether that template is among them; it comes with its virtual cluster."""
        if template.user_id is not None:
            return template.user_id == self.user
        return template.vc.name in self.vcs if template.vc is not None else self.public


def template_homes(*, user: User) -> TemplateHomes:
    """Where the user may write templates. One query."""
    vcs = vc_restrict(user=user, action=Action.TEMPLATE_WRITE).order_by("name").values_list("name", flat=True)
    return TemplateHomes(user.pk, tuple(vcs), allowed_everywhere(user, Action.TEMPLATE_PUBLISH))


def template_publish_right(*, user: User) -> None:
    """Raises Denied unless the user may write templates for everybody."""
    if not allowed_everywhere(user, Action.TEMPLATE_PUBLISH):
        raise Denied(gettext(PUBLIC_REFUSED))
