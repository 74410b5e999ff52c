"""E-mail by a real SMTP server: what arrives, and what a delivery says when it does not."""

import asyncio
import ssl
from pathlib import Path

import msgspec
import pytest

from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.webhook_types import KindOptions, Webhook
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.email_sender import EmailSender, SmtpServer, read_server
from tests.contract.log.certificates import Authority
from tests.integration.webhooks.smtp_server import PASSWORD, USER, SmtpReceiver, receiving_mail
from tests.unit.lookout import builders

BODY = msgspec.json.encode(
    {
        "subject": "[Fairlead] Job set q/näch&t <1> has finished",
        "text": "Job set q/näch&t <1> has finished.\n\nOpen in Fairlead: https://f.example.org/x\n",
        "link": "https://f.example.org/x",
    }
).decode()


def make_webhook(*recipients: str) -> Webhook:
    options = KindOptions(recipients=recipients or ("anna@example.org",))
    return builders.make_webhook(name="mail", kind="email", options=options)


def make_server(receiver: SmtpReceiver, **changes: object) -> SmtpServer:
    plain = SmtpServer("127.0.0.1", receiver.port, "none", "", "", "fairlead@example.org")
    return plain._replace(**changes)  # type: ignore[arg-type]


async def send(
    server: SmtpServer, webhook: Webhook | None = None, body: str = BODY, **settings: object
) -> Attempt:
    sender = EmailSender(server, **settings)  # type: ignore[arg-type]
    return await sender.send(webhook or make_webhook(), "evt_ab_7-1-0", body, "application/json")


def make_starttls(folder: Path) -> tuple[ssl.SSLContext, str]:
    """The context of a server for 127.0.0.1, and the file of its authority."""
    authority = Authority(folder)
    signed = authority.sign("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.cert, signed.key)
    return context, str(authority.ca)


async def test_an_email_has_text_html_and_the_id_of_the_event() -> None:
    async with receiving_mail() as receiver:
        attempt = await send(make_server(receiver), make_webhook("a@example.org", "b@example.org"))
        assert (attempt.succeeded, attempt.error) == (True, None)
        (message,) = receiver.received
        assert message["Message-ID"] == "<evt_ab_7-1-0.mail@example.org>"
        assert message["Subject"] == "[Fairlead] Job set q/näch&t <1> has finished"
        assert message["To"] == "a@example.org, b@example.org"
        assert message["Auto-Submitted"] == "auto-generated"
        plain = message.get_body(("plain",))
        rich = message.get_body(("html",))
        assert plain is not None
        assert rich is not None
        assert "q/näch&t <1> has finished." in plain.get_content()
        assert "q/näch&amp;t &lt;1&gt; has finished." in rich.get_content()
        assert '<a href="https://f.example.org/x">' in rich.get_content()


async def test_a_password_is_sent_only_after_starttls(tmp_path: Path) -> None:
    context, ca_file = make_starttls(tmp_path)
    async with receiving_mail(context, with_password=True) as receiver:
        server = make_server(receiver, security="starttls", user=USER, password=PASSWORD)
        attempt = await send(server, ca_file=ca_file)
        assert attempt.succeeded, attempt.error
        assert receiver.encrypted == [True]
        wrong = await send(server._replace(password="wrong"), ca_file=ca_file)
        assert "refuses the user or password" in (wrong.error or "")
        assert not wrong.is_final
        untrusted = await send(server)
        assert "cannot be used" in (untrusted.error or "")
        assert len(receiver.received) == 1


async def test_a_server_without_starttls_is_not_used() -> None:
    async with receiving_mail() as receiver:
        attempt = await send(make_server(receiver, security="starttls"))
        assert not attempt.succeeded
        assert receiver.received == []


async def test_refused_recipients_end_the_delivery_only_for_good() -> None:
    async with receiving_mail() as receiver:
        receiver.refused = {"gone@example.org": "550 no such user"}
        attempt = await send(make_server(receiver), make_webhook("gone@example.org"))
        assert (attempt.status, attempt.is_final) == (550, True)
        assert "gone@example.org: 550 no such user" in (attempt.error or "")
        receiver.refused = {"gone@example.org": "450 greylisted"}
        later = await send(make_server(receiver), make_webhook("gone@example.org"))
        assert (later.status, later.is_final) == (450, False)
        partly = await send(
            make_server(receiver), make_webhook("gone@example.org", "anna@example.org")
        )
        assert partly.succeeded
        assert partly.error == "Sent, but not to gone@example.org: 450"


@pytest.mark.parametrize(("answer", "is_final"), [("554 spam", True), ("451 later", False)])
async def test_a_refused_message_is_explained(answer: str, is_final: bool) -> None:
    async with receiving_mail() as receiver:
        receiver.data_answer = answer
        attempt = await send(make_server(receiver))
        assert (attempt.succeeded, attempt.is_final) == (False, is_final)
        assert answer in (attempt.error or "")


async def test_a_server_that_is_down_or_silent_is_explained() -> None:
    async with receiving_mail() as receiver:
        down = make_server(receiver)
    attempt = await send(down)
    assert "The SMTP server cannot be used" in (attempt.error or "")

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    attempt = await send(down._replace(port=port), timeout_s=0.2)
    assert attempt.error == "The SMTP server does not answer within 0.2 s."
    for writer in writers:
        writer.close()
    silent.close()


async def test_names_cannot_add_headers_or_markup() -> None:
    body = {"subject": "a\r\nBcc: evil@example.org", "text": "<script>\r\n.\r\nx", "link": ""}
    async with receiving_mail() as receiver:
        refused = await send(make_server(receiver), body=msgspec.json.encode(body).decode())
        assert refused.is_final
        assert "not a valid e-mail" in (refused.error or "")
        assert receiver.received == []
        body["subject"] = "a"
        await send(make_server(receiver), body=msgspec.json.encode(body).decode())
        (message,) = receiver.received
        rich = message.get_body(("html",))
        assert rich is not None
        assert "<script>" not in rich.get_content()
        assert "Bcc" not in message


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("sesame\n")
    settings = Settings(
        smtp_host="smtp.example.org",
        smtp_from="fairlead@example.org",
        smtp_user="fairlead",
        smtp_password_file=str(file),
    )
    assert read_server(settings).password == "sesame"


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"smtp_from": ""}, "smtpFrom"),
        ({"smtp_from": "Fairlead <a@b.org>"}, "smtpFrom"),
        ({"smtp_password": "x"}, "smtpUser"),
        ({"smtp_user": "u", "smtp_password": "x", "smtp_password_file": "y"}, "smtpPasswordFile"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    changes: dict[str, str], setting: str
) -> None:
    given = {"smtp_host": "smtp.example.org", "smtp_from": "fairlead@example.org", **changes}
    with pytest.raises(ValueError, match=setting):
        Settings(**given)  # type: ignore[arg-type]
