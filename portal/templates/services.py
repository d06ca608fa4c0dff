"""Job templates: files that are judged when they are stored, and again when they are submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.versions import version_check, version_of
from portal.job_file.problems import SpecInvalid
from portal.job_file.validate import parse
from portal.teams.models import VirtualCluster
from portal.templates.models import JobTemplate

MOST_TEMPLATES = 500
"""Of one user, of one virtual cluster, or of everybody."""
Home = User | VirtualCluster | None
"""Whose a template is; None: everybody's."""


def template_told(template: JobTemplate) -> dict[str, Any]:
    """A template as the audit log and its version tell it; of the file only whether it is another."""
    return {
        "name": template.name,
        "description": template.description,
        "file": version_of({"file": template.file}),
    }


def template_create(*, home: Home, name: str, description: str, file: str, now: datetime, actor: str) -> JobTemplate:
    """Store a job file. Raises Invalid with every problem of it, Conflict where its home has one of this name or too
    many."""
    _check(file)
    template = JobTemplate(**_home(home), name=name, description=description, file=file, author=actor, changed_at=now)
    if JobTemplate.objects.filter(**_home(home)).count() >= MOST_TEMPLATES:
        raise Conflict(
            gettext("%(most_templates)s templates are there, and there can be no more; remove one first.")
            % {"most_templates": MOST_TEMPLATES}
        )
    with _named_once(template), transaction.atomic():
        template.save(force_insert=True)
        _audit(template, actor, now, after=template_told(template))
    return template


def template_change(
    *, template: JobTemplate, changes: Mapping[str, str], seen: str | None = None, now: datetime, actor: str
) -> JobTemplate:
    """Another ``name``, ``description`` or ``file``. Raises Invalid with every problem of the file, Conflict for a name
    that is taken, or where ``seen``, the version that the change was made from, is not the present one."""
    if "file" in changes:
        _check(changes["file"])
    with _named_once(template), transaction.atomic():
        row = JobTemplate.objects.select_for_update(of=("self",)).select_related("user", "vc").get(pk=template.pk)
        before = template_told(row)
        version_check(before, seen)
        for name, value in changes.items():
            setattr(row, name, value)
        was, became = changes_of(before, template_told(row))
        if became:
            row.author, row.changed_at = actor, now
            row.save()
            _audit(row, actor, now, before=was, after=became)
    return row


def template_remove(*, template: JobTemplate, now: datetime, actor: str) -> None:
    """Forget it; jobs that were made from it stay. Doing it twice is doing it once."""
    with transaction.atomic():
        if JobTemplate.objects.filter(pk=template.pk).delete()[0]:
            _audit(template, actor, now, before=template_told(template))


@contextmanager
def _named_once(template: JobTemplate) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise Conflict(gettext("There is a template of this name already.")) from error


def _home(home: Home) -> dict[str, Any]:
    return {"user": home if isinstance(home, User) else None, "vc": home if isinstance(home, VirtualCluster) else None}


def _check(file: str) -> None:
    try:
        spec = parse(file)
    except SpecInvalid as error:
        faults = [Fault(f"file.{one.path}".rstrip("."), one.message, one.code, one.line) for one in error.problems]
        raise Invalid(faults) from error
    if spec.secrets:
        message = gettext("a template holds no secrets; store them, and refer to them by <% $secrets.NAME %>")
        raise Invalid([Fault("file.secrets", message, "secret")])


def _audit(template: JobTemplate, actor: str, now: datetime, **values: dict[str, Any]) -> None:
    vc = template.vc.name if template.vc else ""
    whose = template.user.username if template.user else vc or "everybody"
    audit_write(Audited.TEMPLATE, actor=actor, target=f"{template.name} of {whose}", vc=vc, now=now, **values)
