"""Short-lived tokens with which one service authorises a request to another."""

import base64
import hmac


def sign(key: str, subject: str, expires_ms: int) -> str:
    """A token for `subject` that is valid until `expires_ms`."""
    assert key, "services need a signing key"
    payload = f"{expires_ms}:{subject}".encode()
    mark = hmac.digest(key.encode(), payload, "sha256")
    return base64.urlsafe_b64encode(mark + payload).decode()


def verify(key: str, token: str, now_ms: int) -> str | None:
    """The subject of a token that `sign` made, or None if it is forged or expired."""
    try:
        raw = base64.urlsafe_b64decode(token.encode())
        mark, payload = raw[:32], raw[32:]
        expires, _, subject = payload.decode().partition(":")
        expires_ms = int(expires)
    except (ValueError, UnicodeError):
        return None
    genuine = hmac.compare_digest(mark, hmac.digest(key.encode(), payload, "sha256"))
    return subject if key and genuine and expires_ms > now_ms else None
