"""An SMTP server on this machine (aiosmtpd): it records e-mails and refuses what it is told to."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER = "fairlead"
PASSWORD = "sesame"


class SmtpReceiver:
    """What was received. `refused`: recipient -> the answer instead of accepting it; `data_answer`:
    the answer to each message."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[EmailMessage] = []
        self.encrypted: list[bool] = []
        self.refused: dict[str, str] = {}
        self.data_answer = "250 OK"

    async def handle_RCPT(
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, session: Session, envelope: Envelope) -> str:
        if self.data_answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=default)
            assert isinstance(message, EmailMessage)
            self.received.append(message)
            self.encrypted.append(session.ssl is not None)
        return self.data_answer


def _authenticate(_: SMTP, __: Session, ___: Envelope, ____: str, given: Any) -> AuthResult:
    assert isinstance(given, LoginPassword)
    known = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=known, handled=False)


@asynccontextmanager
async def receiving_mail(
    starttls: ssl.SSLContext | None = None, *, with_password: bool = False
) -> AsyncIterator[SmtpReceiver]:
    """A server until the end of the block."""
    receiver = SmtpReceiver()
    loop = asyncio.get_running_loop()

    def open_session() -> SMTP:
        return SMTP(
            receiver,
            hostname="smtp.example.org",
            tls_context=starttls,
            require_starttls=starttls is not None,
            auth_required=with_password,
            auth_require_tls=starttls is not None,
            authenticator=_authenticate if with_password else None,
            loop=loop,
        )

    server = await loop.create_server(open_session, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await server.wait_closed()
