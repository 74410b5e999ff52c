"""Settings of access: roles, token issuers, and the limits of callers and connections.

These structs are part of `Settings`; `find_errors` checks what their types cannot express.
"""

from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import Role

ASYMMETRIC_ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Algorithms that verify with a public key. Others are never allowed."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]


class _Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A section of the settings: an unknown key is an error."""


class RoleBinding(_Section, frozen=True, kw_only=True):
    """Gives a role to users (`ann`) and groups (`group:ml`), everywhere or in some queues."""

    role: Role
    subjects: Annotated[tuple[str, ...], Meta(min_length=1)]
    queues: tuple[str, ...] | None = None


class Issuer(_Section, frozen=True, kw_only=True):
    """An OpenID provider whose bearer tokens are accepted.

    `issuer` is its URL, exactly as in its tokens; its keys are found by discovery. A token must
    contain `audience`. `name_claim` and `groups_claim` name the caller and its groups, each with
    its prefix, so that two issuers cannot be confused. `leeway_s`: the tolerated difference of its
    clock. `keys_s`: how long its keys are used before they are fetched again.

    With `client_id`, users sign in with their browser: `title` names the provider on that page,
    `scopes` are requested, and `client_secret` is sent if the provider issued one. The provider
    must know `https://<host>/sign-in/callback`. A session ends after `session_s`.
    """

    issuer: str
    audience: Annotated[str, Meta(min_length=1)]
    name_claim: str = "sub"
    groups_claim: str = "groups"
    name_prefix: str = ""
    group_prefix: str = ""
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    leeway_s: Annotated[float, Meta(ge=0, le=300)] = 30.0
    keys_s: Positive = 3600.0
    client_id: str = ""
    client_secret: str = ""
    title: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    session_s: Positive = 12 * 3600.0


class RequestLimits(_Section, frozen=True, kw_only=True):
    """The limits of one caller in one process.

    A bucket of `burst` requests that is refilled with `per_second`; at most `concurrent_max`
    concurrent requests, including streams and long polls. `failures_*`: the same for invalid
    credentials, by client address. At most `callers_max` callers are remembered. The credentials of
    a long request are checked again every `recheck_s`, so that a stream ends soon after its token
    is revoked.
    """

    per_second: Positive = 5_000.0
    burst: Count = 10_000
    concurrent_max: Count = 400
    failures_per_second: Positive = 5.0
    failures_burst: Count = 100
    callers_max: Count = 10_000
    recheck_s: Positive = 5.0


class ConnectionLimits(_Section, frozen=True, kw_only=True):
    """The limits of one connection, and of all connections of a process.

    The head of a request must arrive within `head_s`; its body at `body_bytes_per_s` or more after
    the first `body_s`. A connection without a request is closed after `idle_s`; one whose client
    does not read the response, after `write_s`. At most `connections_max` are open: a new one
    replaces the one that has been idle the longest. `proxies`: addresses or networks whose
    `X-Forwarded-For` and `X-Forwarded-Proto` are trusted, because a proxy of this installation is
    there.
    """

    head_s: Positive = 10.0
    body_s: Positive = 20.0
    body_bytes_per_s: Positive = 4096.0
    idle_s: Positive = 30.0
    write_s: Positive = 30.0
    connections_max: Count = 4_000
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    head_bytes_max: Annotated[int, Meta(ge=4096)] = 65_536


def find_errors(issuers: tuple[Issuer, ...], *, has_signing_key: bool = True) -> list[FieldError]:
    """The errors in these issuers. `has_signing_key`: whether `signingKey` is set."""
    found = []
    for index, issuer in enumerate(issuers):
        place = f"oidc/{index}"
        parts = urlsplit(issuer.issuer)
        local = parts.scheme == "http" and parts.hostname in LOOPBACK
        if not (parts.hostname and (parts.scheme == "https" or local)):
            found.append(FieldError(f"{place}/issuer", f"{issuer.issuer!r} is not an https URL"))
        for name in issuer.algorithms:
            if name not in ASYMMETRIC_ALGORITHMS:
                words = ", ".join(ASYMMETRIC_ALGORITHMS)
                found.append(FieldError(f"{place}/algorithms", f"{name!r} is not one of {words}"))
        if not issuer.algorithms:
            found.append(FieldError(f"{place}/algorithms", "is empty; name at least one algorithm"))
        found += _find_client_errors(place, issuer, has_signing_key)
    if len({issuer.issuer for issuer in issuers}) < len(issuers):
        found.append(FieldError("oidc", "contains the same issuer twice"))
    return found


def _find_client_errors(place: str, issuer: Issuer, has_signing_key: bool) -> list[FieldError]:
    """What is wrong with the settings for browsers."""
    if not issuer.client_id:
        if not issuer.client_secret:
            return []
        return [FieldError(f"{place}/clientSecret", "needs `clientId`")]
    found = []
    if not has_signing_key:
        found.append(FieldError(f"{place}/clientId", "needs the setting `signingKey`"))
    if "openid" not in issuer.scopes:
        found.append(FieldError(f"{place}/scopes", "must contain `openid`"))
    return found
