"""Tokens of OpenID providers: discovery, key rotation, and the caller that a token names.

Only signatures with key pairs that the settings allow are accepted. Keys are fetched when first
needed, again after `keys_s`, and immediately for a token with an unknown key, but not more often
than every `REFETCH_S`; while the provider is unavailable, known keys are used for `STALE_S`.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote_plus

import httpx2
import jwt
import msgspec
from cachetools import TLRUCache

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.permissions import GROUP, Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.service.access_settings import Issuer, RoleBinding
from fairlead_common.web import tls
from fairlead_common.web.auth import role_bindings

TOKEN_LENGTH_MAX: Final = 16_384
CACHE_S: Final = 60.0
CACHED_TOKENS_MAX: Final = 10_000
REFETCH_S: Final = 10.0
STALE_S: Final = 86_400.0
FETCH_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 2**20
GROUPS_MAX: Final = 1_000
NAME_LENGTH_MAX: Final = 253
DISCOVERY: Final = "/.well-known/openid-configuration"


class IssuerUnavailable(WorldError):
    """An OpenID provider does not respond as specified."""


class Provider:
    """One issuer and its keys."""

    def __init__(self, issuer: Issuer, now_s: Callable[[], float]) -> None:
        self.issuer = issuer
        self._now_s = now_s
        self._about: Mapping[str, Any] = {}
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._fetched_s: float | None = None
        self._tried_s = float("-inf")
        self._last_error = ""
        self._fetching = asyncio.Lock()

    async def key(self, name: str | None) -> jwt.PyJWK | None:
        """The key with this name. Raises `IssuerUnavailable` if the provider has no keys at all."""
        if self._age_s() > self.issuer.keys_s or name not in self._keys:
            async with self._fetching:
                if self._age_s() > self.issuer.keys_s or name not in self._keys:
                    await self._refresh()
        if self._age_s() > self.issuer.keys_s + STALE_S:
            raise IssuerUnavailable(f"{self.issuer.issuer} returned no keys: {self._last_error}")
        return self._keys.get(name)

    async def endpoint(self, name: str) -> str:
        """An address of its discovery document. Raises `IssuerUnavailable` if it has none."""
        if self._age_s() > self.issuer.keys_s:
            async with self._fetching:
                if self._age_s() > self.issuer.keys_s:
                    await self._refresh()
        address = self._about.get(name)
        if not isinstance(address, str) or not address:
            why = self._last_error or f"its discovery document has no {name}"
            raise IssuerUnavailable(f"{self.issuer.issuer} cannot be used to sign in: {why}")
        self._check_secure(address)
        return address

    async def end_session_endpoint(self) -> str | None:
        """Where a browser signs out of the provider, if its discovery document says so."""
        try:
            return await self.endpoint("end_session_endpoint")
        except IssuerUnavailable:
            return None

    async def claims(self, token: str, audience: str) -> Mapping[str, Any]:
        """The claims of a token, verified. Raises `PyJWTError`, a 401 `Problem`, or
        `IssuerUnavailable`.
        """
        header = jwt.get_unverified_header(token)
        issuer, algorithm = self.issuer, header.get("alg")
        if algorithm not in issuer.algorithms:
            raise _refused(f"is signed by {str(algorithm)[:20]!r}, which is not allowed")
        key = await self.key(header.get("kid"))
        if key is None:
            raise _refused("is signed by a key that its issuer does not publish")
        if key.algorithm_name != algorithm:
            raise _refused(f"is signed by {algorithm}, which its key is not for")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=audience,
            issuer=issuer.issuer,
            leeway=issuer.leeway_s,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> str:
        """The ID token for a code. Raises a 401 `Problem`, or `IssuerUnavailable`."""
        issuer, address = self.issuer, await self.endpoint("token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        credentials = None
        if issuer.client_secret and self._takes_basic():
            quoted = (quote_plus(part) for part in (issuer.client_id, issuer.client_secret))
            credentials = httpx2.BasicAuth(*quoted)
        else:
            form["client_id"] = issuer.client_id
            if issuer.client_secret:
                form["client_secret"] = issuer.client_secret
        try:
            async with (
                asyncio.timeout(FETCH_S),
                _client(credentials) as http,
                http.stream("POST", address, data=form) as answer,
            ):
                content = await _json(answer, address)
        except (OSError, TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise IssuerUnavailable(f"{issuer.issuer} did not answer: {why}") from error
        if answer.status_code in (400, 401):
            raise _refused(
                f"was not issued: the provider answered {str(content.get('error'))[:100]!r}"
            )
        id_token = content.get("id_token")
        if answer.status_code != 200 or not isinstance(id_token, str):
            raise IssuerUnavailable(f"{address} answered {answer.status_code} without an ID token")
        return id_token

    def _takes_basic(self) -> bool:
        """Whether a client secret can be sent with HTTP Basic, which is the default."""
        methods = self._about.get("token_endpoint_auth_methods_supported")
        return not isinstance(methods, list) or "client_secret_basic" in methods

    def _check_secure(self, address: str) -> None:
        if address.startswith("http://") and self.issuer.issuer.startswith("https://"):
            raise IssuerUnavailable(f"its address {address} is not secure")

    def _age_s(self) -> float:
        return float("inf") if self._fetched_s is None else self._now_s() - self._fetched_s

    async def _refresh(self) -> None:
        """Fetch the keys, unless this was done a moment ago. Records the reason of a failure."""
        if self._now_s() - self._tried_s < REFETCH_S:
            return
        self._tried_s = self._now_s()
        try:
            async with (
                asyncio.timeout(FETCH_S),
                _client() as http,
            ):
                about = await _get(http, self.issuer.issuer.rstrip("/") + DISCOVERY)
                if about.get("issuer") != self.issuer.issuer:
                    raise IssuerUnavailable(f"it calls itself {about.get('issuer')!r}")
                address = str(about.get("jwks_uri"))
                self._check_secure(address)
                self._keys = _keys(await _get(http, address))
                self._about = about
        except (OSError, TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, WorldError) as error:
            self._last_error = str(error) or type(error).__name__
            return
        self._fetched_s = self._now_s()


def _client(credentials: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        timeout=FETCH_S, trust_env=False, auth=credentials, verify=tls.trust_system()
    )


async def _get(http: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    """A JSON object. Raises `IssuerUnavailable` or what httpx raises."""
    async with http.stream("GET", url) as answer:
        if answer.status_code != 200:
            raise IssuerUnavailable(f"{url} answered {answer.status_code}")
        return await _json(answer, url)


async def _json(answer: httpx2.Response, url: str) -> Mapping[str, Any]:
    """The JSON object in this response, of a limited size. Raises what `_get` raises."""
    content = bytearray()
    async for part in answer.aiter_bytes():
        content += part
        if len(content) > ANSWER_BYTES_MAX:
            raise IssuerUnavailable(f"{url} answered more than {ANSWER_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(bytes(content), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise IssuerUnavailable(f"{url} did not answer with a JSON object: {error}") from None


def _keys(document: Mapping[str, Any]) -> Mapping[str | None, jwt.PyJWK]:
    """The public signing keys by name, without keys of an unknown type."""
    try:
        keys = jwt.PyJWKSet(document.get("keys") or []).keys
    except jwt.PyJWTError:  # there is none
        return {}
    return {
        key.key_id: key
        for key in keys
        if key.public_key_use in (None, "sig") and key.key_type != "oct"
    }


class Issuers:
    """All providers in the settings."""

    def __init__(
        self,
        issuers: Sequence[Issuer],
        roles: Sequence[RoleBinding],
        now_s: Callable[[], float],
    ) -> None:
        self._providers = {issuer.issuer: Provider(issuer, now_s) for issuer in issuers}
        self._roles = tuple(roles)
        self._known: TLRUCache[bytes, tuple[Caller, float]] = TLRUCache(
            CACHED_TOKENS_MAX, lambda _, found, time_s: time_s + min(CACHE_S, found[1]), timer=now_s
        )
        """Each caller with the seconds for which its token is still valid."""

    def find_cached(self, token: str) -> Caller | None:
        """The caller, if the cache has it."""
        found = self._known.get(_digest(token))
        return None if found is None else found[0]

    async def find(self, token: str, now_ms: int) -> Caller:
        """The caller that the token names. Raises a 401 `Problem`, or `IssuerUnavailable`."""
        if (caller := self.find_cached(token)) is not None:
            return caller
        if len(token) > TOKEN_LENGTH_MAX:
            raise _refused(f"is longer than {TOKEN_LENGTH_MAX} characters")
        try:
            claims, issuer = await self._claims(token)
        except jwt.PyJWTError as error:
            raise _refused(f"is not valid: {error}") from None
        caller = _caller(claims, issuer, self._roles)
        left_s = claims["exp"] + issuer.leeway_s - now_ms / 1000
        self._known[_digest(token)] = caller, left_s
        return caller

    def provider(self, issuer: str) -> Provider | None:
        """The provider with this name, if browsers are able to sign in with it."""
        found = self._providers.get(issuer)
        return found if found is not None and found.issuer.client_id else None

    async def signed_in(self, provider: Provider, id_token: str, nonce: str) -> Caller:
        """The user who has signed in. Raises a 401 `Problem`, or `IssuerUnavailable`."""
        issuer = provider.issuer
        if len(id_token) > TOKEN_LENGTH_MAX:
            raise _refused(f"is longer than {TOKEN_LENGTH_MAX} characters")
        try:
            claims = await provider.claims(id_token, issuer.client_id)
        except jwt.PyJWTError as error:
            raise _refused(f"is not valid: {error}") from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise _refused("does not belong to this sign-in")
        if claims.get("azp", issuer.client_id) != issuer.client_id:
            raise _refused("was made for another client")
        return _caller(claims, issuer, self._roles)

    async def _claims(self, token: str) -> tuple[Mapping[str, Any], Issuer]:
        """The claims of a verified token. Raises `PyJWTError` or `Problem`."""
        unverified = jwt.decode(token, options={"verify_signature": False})
        provider = self._providers.get(str(unverified.get("iss")))
        if provider is None:
            raise _refused(
                f"is of {str(unverified.get('iss'))[:200]!r}, which is not a configured issuer"
            )
        return await provider.claims(token, provider.issuer.audience), provider.issuer


def _caller(claims: Mapping[str, Any], issuer: Issuer, roles: Sequence[RoleBinding]) -> Caller:
    """The caller that the claims name. Raises a 401 `Problem` if they do not name one."""
    name = claims.get(issuer.name_claim)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise _refused(f"has no claim {issuer.name_claim!r} that is a name")
    if issuer.name_claim == "email" and claims.get("email_verified") is not True:
        raise _refused("names an e-mail address that is not verified")
    name = issuer.name_prefix + name
    if name.startswith(GROUP):
        raise _refused(f"has a name that begins with {GROUP!r}")
    given = claims.get(issuer.groups_claim, [])
    groups = [given] if isinstance(given, str) else given
    if (
        not isinstance(groups, list)
        or len(groups) > GROUPS_MAX
        or not all(isinstance(group, str) for group in groups)
    ):
        raise _refused(f"has a claim {issuer.groups_claim!r} that is not a list of names")
    return role_bindings.bind_roles(name, [issuer.group_prefix + group for group in groups], roles)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _refused(why: str) -> Problem:
    return Problem("unauthenticated", f"The token of the OpenID provider {why}.")
