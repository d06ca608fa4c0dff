"""Explains why the mail server does not take mail: one sentence with the cure."""

from __future__ import annotations

import time
from smtplib import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPNotSupportedError,
    SMTPResponseException,
    SMTPSenderRefused,
)

from django.conf import settings

from nodes.protocol.connecting import Endpoint, connection_fault

SETTING = "BERTH_EMAIL_URL"
WANTS_LOG_IN = 530
"""SMTP status "authentication required" (RFC 4954)."""


def mail_fault(error: SMTPException | OSError) -> str:
    """The sentence. Users read it about their own mails: it names the setting, never the server or its account."""
    place = _place()
    if words := _refusal(error):
        return f"{place.at[:1].upper()}{place.at[1:]} {words}."
    return connection_fault(error, place, now_ms=int(time.time() * 1000))


def _place() -> Endpoint:
    scheme = "smtps" if settings.EMAIL_USE_SSL else "smtp+tls" if settings.EMAIL_USE_TLS else "smtp"
    host = f"[{settings.EMAIL_HOST}]" if ":" in settings.EMAIL_HOST else settings.EMAIL_HOST
    url = f"{scheme}://{host}:{settings.EMAIL_PORT}"
    return Endpoint("the mail server", url, SETTING, "SSL_CERT_FILE", hidden=True)


def _refusal(error: SMTPException | OSError) -> str:
    """What the server itself refused; empty if it was not reached."""
    if isinstance(error, SMTPNotSupportedError) and ("STARTTLS" in str(error) or "AUTH" in str(error)):
        return f"does not offer what {SETTING} asks for ({_plain(error)}): correct its beginning, its port, or its user"
    if not isinstance(error, SMTPResponseException):
        return ""
    said = _reply(error)
    if isinstance(error, SMTPAuthenticationError):
        return f"does not know this account or its password ({said}): correct them in {SETTING}"
    if error.smtp_code == WANTS_LOG_IN:
        return f"wants a log-in ({said}): write user and password into {SETTING}"
    if isinstance(error, SMTPSenderRefused):
        return f"takes no mail from this portal ({said}): correct BERTH_EMAIL_FROM, or allow that sender there"
    return f"refuses ({said}): look at its own log, and at {SETTING}"


def _reply(error: SMTPResponseException) -> str:
    text = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
    return _plain(f"{error.smtp_code} {text}")


def _plain(said: object) -> str:
    """The message on one line, to stand in brackets."""
    return " ".join(str(said).split()).rstrip(".")
