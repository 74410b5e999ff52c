"""Sends one delivery as an HTTP request: signed to programs, as a message to Slack."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook as Signer

from fairlead_common.domain.secret_values import DecryptionFailed, Keyring
from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.service.webhooks.http_client import HttpClient, RequestFailed

EXCERPT_MAX: Final = 300
SECRET_CHARACTERS_MIN: Final = 8
"""Shorter values of headers are not hidden: they can be words of any text."""


class RequestSender:
    """Sends deliveries of the kinds webhook and slack."""

    def __init__(self, keyring: Keyring, http: HttpClient) -> None:
        self._keyring = keyring
        self._http = http

    async def send(
        self, webhook: Webhook, message_id: str, body: str, content_type: str
    ) -> Attempt:
        """Send it once. Never raises for what the receiver or the network does."""
        started_s = clock.monotonic_s()
        status: int | None = None
        retry_after_s = 0
        error: str | None = None
        try:
            given = open_headers(self._keyring, webhook)
            headers = {
                "Content-Type": content_type,
                **self._sign(webhook, message_id, body),
                **given,
            }
            response = await self._http.request(
                "POST", webhook.url, headers, body.encode(), queue=webhook.filter.queue
            )
            status, retry_after_s = response.status, response.retry_after_s
            if not 200 <= status < 300:
                error = _explain_status(status, response.content, given.values())
        except DecryptionFailed as failure:
            error = explain_decryption(failure)
        except RequestFailed as failure:
            error = str(failure)
        return Attempt(
            duration_ms=round((clock.monotonic_s() - started_s) * 1000),
            status=status,
            error=None if error is None else make_printable(error),
            retry_after_s=retry_after_s,
        )

    def _sign(self, webhook: Webhook, message_id: str, body: str) -> dict[str, str]:
        """The headers of Standard Webhooks; none without a secret."""
        now_ms = clock.now_ms()
        secrets = webhook.list_valid_secrets(now_ms)
        if not secrets:
            return {}
        moment = datetime.fromtimestamp(now_ms // 1000, UTC)
        signatures = [
            Signer(self._keyring.open(webhook.seal_name, secret.sealed)).sign(
                message_id, moment, body
            )
            for secret in secrets
        ]
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(now_ms // 1000),
            "webhook-signature": " ".join(signatures),
        }


def _hide(text: str, secrets: Iterable[str]) -> str:
    """The text without secrets: some receivers repeat the headers of a request in their answer."""
    for secret in secrets:
        for part in (secret, *secret.split()):
            if len(part) >= SECRET_CHARACTERS_MIN:
                text = text.replace(part, "***")
    return text


def open_headers(keyring: Keyring, webhook: Webhook) -> dict[str, str]:
    """The additional headers of a webhook. Raises `DecryptionFailed`."""
    return {name: keyring.open(webhook.seal_name, text) for name, text in webhook.headers.items()}


def explain_decryption(failure: DecryptionFailed) -> str:
    """What a delivery says if its webhook cannot be decrypted."""
    return f"The secrets of the webhook cannot be decrypted: {failure}"


def make_printable(text: str) -> str:
    """An error as it is stored: one line, of limited length."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[: EXCERPT_MAX + 100]


def _explain_status(status: int, content: bytes, secrets: Iterable[str]) -> str:
    if 300 <= status < 400:
        return f"Status {status}: redirects are not followed."
    excerpt = _hide(content.decode(errors="replace"), secrets)[:EXCERPT_MAX]
    return f"Status {status}: {excerpt}" if excerpt.strip() else f"Status {status}."
