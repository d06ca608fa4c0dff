"""A real SMTP server on loopback that keeps what it is sent, and refuses whom it is told to: by TLS or not."""

from __future__ import annotations

import email
import email.policy
import logging
import ssl
from email.message import EmailMessage

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.services.processes import free_port
from tests.support.services.tls import Files


class MailServer:
    """``refusals``: the reply to a recipient, by address; ``refuses``: to every sender; ``letters``: what was taken.
    With a certificate it speaks TLS from the beginning; with a ``password`` it takes mail from who logs in by that."""

    def __init__(self, tls: Files | None = None, *, password: str | None = None) -> None:
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        self.letters: list[EmailMessage] = []
        self.refusals: dict[str, str] = {}
        self.refuses = ""
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.certificate, tls.key)
        self._password = password
        self._controller = Controller(
            self, hostname="127.0.0.1", port=free_port(), ssl_context=context,
            auth_require_tls=password is None, auth_required=password is not None, authenticator=self._known,
        )  # fmt: skip
        self._controller.start()
        self.port = self._controller.port

    def close(self) -> None:
        if self._controller.loop.is_running():
            self._controller.stop()

    def _known(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, said: LoginPassword
    ) -> AuthResult:
        return AuthResult(success=said.password.decode() == self._password, handled=False)

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refuses:
            return self.refuses
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

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
