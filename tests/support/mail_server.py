"""A real SMTP server on loopback that keeps what it is sent, and refuses whom it is told to."""

from __future__ import annotations

import email
import email.policy
import logging
from email.message import EmailMessage

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.processes import free_port


class MailServer:
    """``refusals``: the reply to a recipient, by address; ``letters``: what was taken."""

    def __init__(self) -> None:
        logging.getLogger("mail.log").setLevel(logging.WARNING)
        self.letters: list[EmailMessage] = []
        self.refusals: dict[str, str] = {}
        self._controller = Controller(self, hostname="127.0.0.1", port=free_port())
        self._controller.start()
        self.port = self._controller.port

    def close(self) -> None:
        if self._controller.loop.is_running():
            self._controller.stop()

    async def handle_RCPT(  # noqa: N802  # aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        content = envelope.content
        assert isinstance(content, bytes)
        self.letters.append(email.message_from_bytes(content, policy=email.policy.default))
        return "250 OK"
