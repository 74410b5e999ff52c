"""An OpenID provider on a port: discovery, keys that rotate, tokens of every kind, and people who
sign in with their browser (authorization code with PKCE, RFC 7636).
"""

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import escape
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from fairlead_common.service.access_settings import Issuer
from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_standalone.servers.addresses import free_port

AUDIENCE: Final = "fairlead"
CLIENT: Final = "fairlead-web"
ALGORITHMS: Final = jwt.algorithms.get_default_algorithms()


class Provider:
    """A provider under test. Everything that it answers can be changed while it runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.says = url
        self.fetched = 0
        self.is_away = False
        self.keys: dict[str, tuple[str, Any]] = {}
        self.rotate("one")
        self.client_secret = ""
        self.auth_methods = ["client_secret_basic"]
        self.redirect_uris: set[str] = set()
        self.person: dict[str, object] = {"sub": "ann"}
        self.changes: dict[str, object] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        self.ends_sessions = False
        self.ended: list[dict[str, str]] = []

    def rotate(self, *names: str, kind: str = "RS256") -> None:
        """Publish keys of these names and no others. `Any` above: keys of three libraries."""
        made = {
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        self.keys = {name: self.keys.get(name, (kind, made[kind]())) for name in names}

    def document(self) -> dict[str, object]:
        """The JWKS."""
        return {
            "keys": [
                {
                    **ALGORITHMS[kind].to_jwk(key.public_key(), as_dict=True),
                    "kid": name,
                    "use": "sig",
                    "alg": kind,
                }
                for name, (kind, key) in self.keys.items()
            ]
        }

    def token(self, key: str = "one", *, algorithm: str | None = None, **claims: object) -> str:
        """A token that is good but for what the claims say."""
        kind, private = self.keys[key]
        said = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + 600, **claims}
        given_claims = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(given_claims, private, algorithm or kind, headers={"kid": key})

    def discovery(self) -> dict[str, object]:
        """The discovery document."""
        return {
            "issuer": self.says,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "token_endpoint_auth_methods_supported": self.auth_methods,
            **({"end_session_endpoint": f"{self.url}/logout"} if self.ends_sessions else {}),
        }

    def authorize(self, asked: Mapping[str, str]) -> str:
        """The form that somebody is shown who is to sign in. Raises `Wrong`."""
        wanted = {"response_type": "code", "client_id": CLIENT, "code_challenge_method": "S256"}
        for name, value in wanted.items():
            if asked.get(name) != value:
                raise Wrong(f"{name} must be {value}")
        if asked.get("redirect_uri") not in self.redirect_uris:
            raise Wrong("redirect_uri is not registered")
        if "openid" not in asked.get("scope", "").split() or not asked.get("code_challenge"):
            raise Wrong("scope or code_challenge is missing")
        self.asked.append(dict(asked))
        code = secrets.token_urlsafe(16)
        self.codes[code] = dict(asked)
        yes = urlencode({"code": code, "state": asked["state"], "iss": self.url})
        no = urlencode({"error": "access_denied", "state": asked["state"]})
        uri = asked["redirect_uri"]
        return (
            "<!doctype html><title>The provider</title>"
            f'<a id="yes" href="{escape(f"{uri}?{yes}")}">I am {self.person["sub"]}</a>'
            f'<a id="no" href="{escape(f"{uri}?{no}")}">No</a>'
        )

    def exchange(self, form: Mapping[str, str], authorization: str) -> dict[str, object]:
        """The answer of the token endpoint; a code is good once. Raises `Wrong`."""
        sent = (form.get("client_id", ""), form.get("client_secret", ""))
        if authorization:
            if "client_secret_basic" not in self.auth_methods:
                raise Wrong("invalid_client")
            text = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            name, _, secret = text.partition(":")
            sent = (unquote_plus(name), unquote_plus(secret))
        if sent != (CLIENT, self.client_secret):
            raise Wrong("invalid_client")
        asked = self.codes.pop(form.get("code", ""), None)
        if form.get("grant_type") != "authorization_code" or asked is None:
            raise Wrong("invalid_grant")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        is_proved = asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if not is_proved or form.get("redirect_uri") != asked["redirect_uri"]:
            raise Wrong("invalid_grant")
        claims: dict[str, Any] = {
            "aud": CLIENT,
            "nonce": asked["nonce"],
            **self.person,
            **self.changes,
        }
        return {"access_token": "x", "token_type": "Bearer", "id_token": self.token(**claims)}

    def issuer(self, **more: object) -> Issuer:
        """The settings that trust it."""
        given: Mapping[str, Any] = {"issuer": self.url, "audience": AUDIENCE, **more}
        return Issuer(**given)


class Wrong(Exception):
    """A request that a provider refuses."""


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """A provider that answers."""
    port = free_port()
    running = Provider(f"http://127.0.0.1:{port}")
    router = APIRouter()

    @router.get("/.well-known/openid-configuration")
    async def about() -> object:
        if running.is_away:
            return Response(status_code=500)
        return running.discovery()

    @router.get("/keys")
    async def keys() -> object:
        running.fetched += 1
        return running.document()

    @router.get("/authorize")
    async def authorize(request: Request) -> Response:
        try:
            return HTMLResponse(running.authorize(dict(request.query_params)))
        except Wrong as error:
            return Response(str(error), status_code=400)

    @router.get("/logout")
    async def logout(request: Request) -> Response:
        running.ended.append(dict(request.query_params))
        return HTMLResponse("signed out")

    @router.post("/token")
    async def token(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        try:
            return JSONResponse(running.exchange(form, request.headers.get("authorization", "")))
        except Wrong as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    open_below = ("/.well-known/", "/keys", "/authorize", "/token", "/logout")
    app = server.build_app("provider", [router], {}, Settings(), open_below=open_below)
    task = asyncio.create_task(server.serve(app, "127.0.0.1", port))
    await _listening(port)
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _listening(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                await writer.wait_closed()
                return


def unsigned(token: str) -> str:
    """The same token, said to need no signature."""
    _, claims, _ = token.split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    return f"{header}.{claims}."
