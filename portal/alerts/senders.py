"""Alerts of failing notification channels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.utils.translation import gettext

from portal.alerts.alert import Alert, Severity
from portal.notices.selectors import Failing, mails_failing, webhook_failing


def sender_alerts(now: datetime) -> Iterator[Alert]:
    """A webhook or mail server that accepts nothing. Each is reported through the other, if there is one. At most five
    queries."""
    if hook := webhook_failing(now=now):
        message = gettext("The webhook has taken nothing for %(minutes)s minutes. Last attempt: %(error)s")
        advice = gettext("See the deliveries on the page Webhook, and mend its receiver or its address.")
        yield _alert("webhook_failing", gettext("webhook"), message, advice, hook, now)
    if mail := mails_failing(now=now):
        message = gettext("The mail server has taken nothing for %(minutes)s minutes. Last attempt: %(error)s")
        advice = gettext("Look at the mail server, and at BERTH_EMAIL_URL; what waits is tried again for a day.")
        yield _alert("mail_failing", gettext("e-mail"), message, advice, mail, now)


def _alert(code: str, name: str, message: str, advice: str, failing: Failing, now: datetime) -> Alert:
    said = {"minutes": int((now - failing.since).total_seconds() // 60), "error": failing.error}
    return Alert(code, Severity.WARNING, "portal", name, message % said, advice, failing.since, ref=code)
