"""Sends one delivery as an e-mail, by the SMTP server of the operator's settings."""

import asyncio
import html
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

import aiosmtplib
import msgspec

from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks.notification_texts import EmailBody
from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.http_client import make_tls_context
from fairlead_lookout.service.webhooks.request_sender import make_printable

PERMANENT: Final = 500
"""From this status on SMTP means: do not send the same again."""
_decode: Final = msgspec.json.Decoder(EmailBody).decode


class SmtpServer(NamedTuple):
    """The server that sends e-mail; without a `host` no e-mail is sent."""

    host: str
    port: int
    security: Literal["starttls", "tls", "none"]
    user: str
    password: str
    sender: str

    @property
    def domain(self) -> str:
        """The domain of the sender."""
        return self.sender.rpartition("@")[2]


class EmailSender:
    """Sends deliveries of the kind email. `ca_file`: certificates that are trusted in addition
    to the system's."""

    def __init__(self, server: SmtpServer, *, timeout_s: float = 10.0, ca_file: str = "") -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._tls: ssl.SSLContext | None = None
        if server.host and server.security != "none":
            self._tls = make_tls_context(ca_file)

    async def send(
        self, webhook: Webhook, message_id: str, body: str, content_type: str
    ) -> Attempt:
        """Send it once. Never raises for what the server or the network does."""
        started_s = clock.monotonic_s()
        result = await self._try(webhook, message_id, _decode(body))
        duration_ms = round((clock.monotonic_s() - started_s) * 1000)
        error = None if result.error is None else make_printable(result.error)
        return msgspec.structs.replace(result, duration_ms=duration_ms, error=error)

    async def _try(self, webhook: Webhook, message_id: str, body: EmailBody) -> Attempt:
        if not self._server.host:
            return Attempt(0, error="This process has no SMTP server: set `smtpHost` for lookout.")
        try:
            message = make_message(webhook, message_id, body, self._server, clock.now_ms())
        except ValueError as failure:  # a header with several lines
            return Attempt(0, error=f"This is not a valid e-mail: {failure}", is_final=True)
        try:
            async with asyncio.timeout(self._timeout_s):
                refused = await self._transmit(message)
        except aiosmtplib.SMTPRecipientsRefused as failure:
            each = failure.recipients
            texts = [f"{one.recipient}: {one.code} {one.message}" for one in each]
            is_final = all(one.code >= PERMANENT for one in each)
            code = each[0].code
            error = f"The SMTP server refuses the recipients: {', '.join(texts)}"
            return Attempt(0, status=code, error=error, is_final=is_final)
        except aiosmtplib.SMTPAuthenticationError as failure:
            error = f"The SMTP server refuses the user or password: {failure.message}"
            return Attempt(0, status=failure.code, error=error)
        except aiosmtplib.SMTPDataError as failure:
            error = f"The SMTP server refuses the message: {failure.code} {failure.message}"
            is_final = failure.code >= PERMANENT
            return Attempt(0, status=failure.code, error=error, is_final=is_final)
        except aiosmtplib.SMTPResponseException as failure:
            error = f"The SMTP server answers {failure.code} {failure.message}"
            return Attempt(0, status=failure.code, error=error)
        except TimeoutError:
            error = f"The SMTP server does not answer within {self._timeout_s:g} s."
            return Attempt(0, error=error)
        except (aiosmtplib.SMTPException, OSError) as failure:
            return Attempt(0, error=f"The SMTP server cannot be used: {failure}")
        texts = [f"{recipient}: {response.code}" for recipient, response in refused.items()]
        partly = f"Sent, but not to {', '.join(texts)}" if texts else None
        return Attempt(0, status=250, error=partly)

    async def _transmit(self, message: EmailMessage) -> dict[str, aiosmtplib.SMTPResponse]:
        """The recipients that were refused, if others were accepted."""
        server = self._server
        refused, _ = await aiosmtplib.send(
            message,
            hostname=server.host,
            port=server.port,
            username=server.user or None,
            password=server.password or None,
            local_hostname=server.domain,
            timeout=self._timeout_s,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=self._tls,
        )
        return refused


def read_server(settings: Settings) -> SmtpServer:
    """The server of the settings, with the password from its file. Raises OSError."""
    password = settings.smtp_password
    if settings.smtp_password_file:
        password = Path(settings.smtp_password_file).read_text().strip()
    return SmtpServer(
        settings.smtp_host,
        settings.smtp_port,
        settings.smtp_security,
        settings.smtp_user,
        password,
        settings.smtp_from,
    )


def make_message(
    webhook: Webhook, message_id: str, body: EmailBody, server: SmtpServer, now_ms: int
) -> EmailMessage:
    """The e-mail, as plain text and as HTML. Its Message-ID is the same for every attempt, so that
    mail programs show it once."""
    message = EmailMessage(policy=SMTP)
    message["From"] = server.sender
    message["To"] = ", ".join(webhook.options.recipients)
    message["Subject"] = body.subject
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ms / 1000, UTC))
    message["Message-ID"] = f"<{message_id}.{webhook.name}@{server.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body.text)
    message.add_alternative(make_html(body), subtype="html")
    return message


def make_html(body: EmailBody) -> str:
    """The text as HTML: everything escaped, lines as they are, and the link as one."""
    text = html.escape(body.text)
    if body.link:
        link = html.escape(body.link)
        text = text.replace(link, f'<a href="{link}">{link}</a>')
    return (
        '<!DOCTYPE html><html><body style="font-family: sans-serif">'
        f'<div style="white-space: pre-wrap">{text}</div></body></html>'
    )
