"""Signing a browser in with an OpenID provider: authorization code with PKCE. Pure.

What must be remembered between the two requests of a browser, an `Attempt`, is in a cookie of its
own, signed, so that any process of submit can finish what another one has begun.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

import msgspec

from fairlead_common.service.access_settings import Issuer
from fairlead_common.web import auth

COOKIE: Final = "fairlead_sign_in"
PATH: Final = "/sign-in"
CALLBACK: Final = "/sign-in/callback"
ATTEMPT_S: Final = 600
"""How long a sign-in with the provider can take."""
SIGN_OUT: Final = "/sign-out"
PROVIDER_COOKIE: Final = "fairlead_provider"
ID_TOKEN_LENGTH_MAX: Final = 2_800
"""Browsers keep cookies of 4 KiB."""
SECRETS: Final = 3
"""Secrets of an attempt: state, nonce and verifier."""
TARGET_LENGTH_MAX: Final = 1_000


class Attempt(msgspec.Struct, frozen=True):
    """A sign-in that has begun. `target`: the path of the page to return to."""

    issuer: str
    state: str
    nonce: str
    verifier: str
    target: str


class ProviderSession(msgspec.Struct, frozen=True):
    """With which provider a browser has signed in."""

    issuer: str
    id_token: str


def begin_attempt(issuer: Issuer, secrets: Sequence[str], target: str) -> Attempt:
    """An attempt with these secrets, each of at least 43 characters."""
    state, nonce, verifier = secrets
    return Attempt(issuer.issuer, state, nonce, verifier, local_path(target))


def make_authorization_url(endpoint: str, issuer: Issuer, begun: Attempt, redirect_uri: str) -> str:
    """The address at which the user signs in with the provider."""
    query = {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(issuer.scopes),
        "state": begun.state,
        "nonce": begun.nonce,
        "code_challenge": make_challenge(begun.verifier),
        "code_challenge_method": "S256",
    }
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def make_challenge(verifier: str) -> str:
    """The code challenge of a verifier, by the method S256 of RFC 7636."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def seal_attempt(key: str, begun: Attempt, expires_ms: int) -> str:
    """The value of the cookie."""
    return auth.sign(_derive_key(key), msgspec.json.encode(begun).decode(), expires_ms)


def open_attempt(key: str, cookie: str, state: str, now_ms: int) -> Attempt | None:
    """The attempt of this cookie, if it is ours, not too old, and has this state."""
    text = auth.verify(_derive_key(key), cookie, now_ms)
    if text is None:
        return None
    begun = msgspec.json.decode(text, type=Attempt)
    return begun if hmac.compare_digest(begun.state.encode(), state.encode()) else None


def provider_cookie(host: str) -> str:
    """The name of the cookie that remembers with which provider a browser has signed in."""
    return auth.cookie_name(host).replace(auth.COOKIE, PROVIDER_COOKIE, 1)


def provider_session(issuer: str, id_token: str) -> str:
    """The value of that cookie: the issuer, and its ID token unless it is too long for a cookie."""
    session = ProviderSession(issuer, id_token if len(id_token) <= ID_TOKEN_LENGTH_MAX else "")
    return base64.urlsafe_b64encode(msgspec.json.encode(session)).decode()


def read_provider_session(cookie: str) -> ProviderSession | None:
    """The content of the cookie, if it can be read."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cookie), type=ProviderSession)
    except (ValueError, msgspec.DecodeError):
        return None


def end_session_url(endpoint: str, issuer: Issuer, id_token: str, redirect_uri: str) -> str:
    """Where the browser ends its session with the provider (OpenID RP-Initiated Logout 1.0)."""
    query = {"client_id": issuer.client_id, "post_logout_redirect_uri": redirect_uri}
    if id_token:
        query["id_token_hint"] = id_token
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def local_path(target: str) -> str:
    """The path if it is a page of this server, else `/`: never the address of another server."""
    is_local = (
        target.startswith("/")
        and not target.startswith(("//", PATH))
        and len(target) <= TARGET_LENGTH_MAX
        and target.isascii()
        and target.isprintable()
        and "\\" not in target
    )
    return target if is_local else "/"


def _derive_key(key: str) -> str:
    """A key for this purpose alone: no token between services is taken for a cookie."""
    return f"sign-in:{key}"
