"""The webhook: what an administrator sets, and the deliveries that events become."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext, gettext_noop

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited
from portal.common.errors import Fault, Invalid, NotFound
from portal.common.sealing import seal
from portal.notices.models import Delivery, Lane, Webhook
from portal.notices.outward import url_faults
from portal.notices.services.bodies import Telling, left_out_telling, ping_telling
from portal.notices.states import SendingState, Told

MOST_WAITING = 10_000
"""Deliveries that may wait; what comes while there are so many is counted, and told as a number."""
SECRET_PREFIX = "whsec_"  # noqa: S105  # how Standard Webhooks marks one
TARGET = gettext_noop("webhook")


def webhook_set(
    *, url: str, kinds: Collection[str], secret: str | None, actor: str, now: datetime
) -> tuple[Webhook, bool]:
    """Tell this address of these kinds from now on, and of what waits at once; without a ``secret`` the one that is
    stored stays. The second: it is new. Raises Invalid with every problem."""
    with transaction.atomic():
        known = Webhook.objects.select_for_update().first()
        faults = [*url_faults(url, settings.WEBHOOK_ALLOW), *_secret_faults(secret, needed=known is None)]
        if faults:
            raise Invalid(faults)
        hook = known or Webhook(id=1)
        before = _told(hook) if known else None
        hook.url, hook.changed_at = url, now
        hook.kinds = [str(kind) for kind in Told if kind in kinds]
        if secret is not None:
            hook.secret_sealed = seal(secret)
        hook.save()
        Lane.objects.filter(pk=TARGET).update(not_before=now, failures=0)
        Delivery.objects.filter(state=SendingState.WAITING).update(next_try_at=now)
        was, became = changes_of(before or {}, _told(hook))
        if became or secret is not None:
            after = {**became, **({"secret": "changed"} if secret is not None else {})}
            audit_write(
                Audited.WEBHOOK, actor=actor, target=TARGET, now=now, before=was if known else None, after=after
            )
    return hook, known is None


def webhook_delete(*, actor: str, now: datetime) -> None:
    """Tell nobody any more; what waits is given up. Raises NotFound."""
    with transaction.atomic():
        hook = Webhook.objects.select_for_update().first()
        if hook is None:
            raise NotFound(TARGET)
        Delivery.objects.filter(state=SendingState.WAITING).update(
            state=SendingState.GIVEN_UP, ended_at=now, error="The webhook was removed."
        )
        audit_write(Audited.WEBHOOK, actor=actor, target=TARGET, now=now, before=_told(hook))
        hook.delete()


def webhook_test(*, actor: str, now: datetime) -> Delivery:
    """A delivery that tells nothing, to see whether it arrives. Raises NotFound."""
    with transaction.atomic():
        if Webhook.objects.select_for_update().first() is None:
            raise NotFound(TARGET)
        made = _delivery(ping_telling(now, actor), now)
        made.save()
        audit_write(Audited.WEBHOOK, actor=actor, target=TARGET, now=now, after={"test": made.message_id})
    return made


def kinds_wanted() -> frozenset[str]:
    """What the webhook is to be told of; nothing where there is none."""
    hook = Webhook.objects.only("kinds").first()
    return frozenset(hook.kinds if hook else ())


def deliveries_make(tellings: Iterable[Telling], now: datetime) -> None:
    """Let these be delivered, in the caller's transaction."""
    told = list(tellings)
    if not told:
        return
    left_out = Webhook.objects.values_list("left_out", flat=True).first() or 0
    room = max(MOST_WAITING - Delivery.objects.filter(state=SendingState.WAITING).count(), 0)
    if left_out and room:
        told.insert(0, left_out_telling(left_out, now))
        Webhook.objects.update(left_out=0)
    Delivery.objects.bulk_create(_delivery(one, now) for one in told[:room])
    if told[room:]:
        Webhook.objects.update(left_out=F("left_out") + len(told) - room)


def _delivery(telling: Telling, now: datetime) -> Delivery:
    return Delivery(
        kind=telling.kind, subject=telling.subject, body=telling.body, created_at=now, next_try_at=now,
        claimed_until=now,
    )  # fmt: skip


def secret_make() -> str:
    """A new Standard Webhooks secret of 32 random bytes."""
    return f"{SECRET_PREFIX}{base64.b64encode(secrets.token_bytes(32)).decode()}"


def secret_bytes(secret: str) -> bytes:
    """The key inside a Standard Webhooks secret. Raises ValueError for what is none."""
    marked, _, text = secret.partition(SECRET_PREFIX)
    if marked or not text:
        raise ValueError("no mark")
    key = base64.b64decode(text, validate=True)
    if not 24 <= len(key) <= 64:
        raise ValueError("no such length")
    return key


def _secret_faults(secret: str | None, *, needed: bool) -> Iterator[Fault]:
    try:
        if secret is not None:
            secret_bytes(secret)
        elif needed:
            yield Fault("secret", gettext("A new webhook needs a secret, by which its receiver knows us."), "required")
    except (ValueError, binascii.Error):
        message = gettext(
            "Must be whsec_ and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)."
        )
        yield Fault("secret", message, "invalid")


def _told(hook: Webhook) -> dict[str, Any]:
    """What the audit log says of it: never the secret."""
    return {"url": hook.url, "kinds": hook.kinds}
