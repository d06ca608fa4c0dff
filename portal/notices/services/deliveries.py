"""Sending to the webhook, signed as Standard Webhooks has it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime

from django.conf import settings

from portal.common.failpoint import failpoint
from portal.common.sealing import SealBroken, unseal
from portal.notices.models import Delivery, Webhook
from portal.notices.outward import Undeliverable, post
from portal.notices.services.sending import (
    attempt,
    claim_next,
    lane_open,
    lane_shut,
    sending_done,
    sending_failed,
    sending_refused,
)
from portal.notices.services.webhook import TARGET, secret_bytes

BUSY = 429


def delivery_send_next(*, now: datetime) -> bool:
    """Try the delivery that is due first; whether the next may be tried now."""
    row = claim_next(Delivery, now=now)
    if row is None:
        return False
    return attempt(row, lambda: _try(row, now), now=now, status=None)


def _try(row: Delivery, now: datetime) -> bool:
    hook = Webhook.objects.first()
    if hook is None:
        sending_refused(row, error="The webhook was removed.", now=now)
        return True
    try:
        status = _post(row, hook, now)
    except (Undeliverable, SealBroken) as error:
        sending_failed(row, error=str(error), now=now, status=None)
        lane_shut(TARGET, now=now)
        return False
    failpoint("delivery_sent")
    return _answered(row, status, now)


def _answered(row: Delivery, status: int, now: datetime) -> bool:
    if 200 <= status < 300:
        sending_done(row, now=now, status=status)
    else:
        words = " Redirects are not followed." if 300 <= status < 400 else ""
        sending_failed(row, error=f"Answered {status}.{words}", now=now, status=status)
    # A receiver that is down or asks for less would refuse the others, too; one that dislikes this one would not.
    if status == BUSY or status >= 500:
        lane_shut(TARGET, now=now)
        return False
    lane_open(TARGET)
    return True


def _post(row: Delivery, hook: Webhook, now: datetime) -> int:
    stamp = str(int(now.timestamp()))
    body = row.body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"berth/{settings.VERSION}",
        "webhook-id": row.message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": signature(secret_bytes(unseal(hook.secret_sealed)), row.message_id, stamp, body),
    }
    return post(hook.url, body=body, headers=headers, allowed=settings.WEBHOOK_ALLOW)


def signature(key: bytes, message_id: str, stamp: str, body: bytes) -> str:
    """``v1,`` and the HMAC-SHA256 of id, time and body, as https://www.standardwebhooks.com has it."""
    signed = b".".join([message_id.encode(), stamp.encode(), body])
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
