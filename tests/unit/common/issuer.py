"""An OpenID provider on a port: discovery, keys that rotate, and tokens of every kind."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from fastapi import APIRouter, Response

from fairlead_common import serving
from fairlead_common.access import Issuer
from fairlead_common.settings import Settings
from fairlead_standalone.addresses import free_port

AUDIENCE: Final = "fairlead"
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
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, private, algorithm or kind, headers={"kid": key})

    def issuer(self, **more: object) -> Issuer:
        """The settings that trust it."""
        given: Mapping[str, Any] = {"issuer": self.url, "audience": AUDIENCE, **more}
        return Issuer(**given)


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
        return {"issuer": running.says, "jwks_uri": f"{running.url}/keys"}

    @router.get("/keys")
    async def keys() -> object:
        running.fetched += 1
        return running.document()

    app = serving.build_app(
        "provider", [router], {}, Settings(), open_below=("/.well-known/", "/keys")
    )
    task = asyncio.create_task(serving.serve(app, "127.0.0.1", port))
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
