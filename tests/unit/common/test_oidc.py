"""Bearer tokens of OpenID providers: what is believed, what is not, and keys that rotate."""

import base64
import hmac
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from fairlead_common.domain.permissions import Caller, Role
from fairlead_common.domain.problems import Problem
from fairlead_common.service.access_settings import Issuer, RoleBinding
from fairlead_common.web.auth import oidc
from fairlead_common.web.auth.oidc import Issuers, IssuerUnavailable
from tests.unit.common.issuer import Provider, provider, unsigned

ROLES = (
    RoleBinding(role=Role.SUBMITTER, subjects=("ann",)),
    RoleBinding(role=Role.OPERATOR, subjects=("group:ops",)),
    RoleBinding(role=Role.ADMIN, subjects=("group:ml",), queues=("vision",)),
)


HMAC_HEADER = b'{"alg":"HS256","kid":"one"}'


def encoded(part: bytes) -> str:
    """A part of a token, as tokens have it."""
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        """What it shows."""
        return self.now_s


@pytest.fixture
async def known() -> AsyncIterator[Provider]:
    """A provider that answers."""
    async with provider() as running:
        yield running


async def find(known: Provider, token: str, issuers: Issuers | None = None) -> Caller:
    """Whose token it is."""
    trusted = issuers or Issuers([known.issuer()], ROLES, Clock())
    return await trusted.find(token, round(time.time() * 1000))


async def refusal(known: Provider, token: str, issuers: Issuers | None = None) -> str:
    """Why a token is not believed."""
    with pytest.raises(Problem) as caught:
        await find(known, token, issuers)
    assert caught.value.slug == "unauthenticated"
    return caught.value.detail


async def test_a_token_has_user_and_groups_and_settings_have_roles(
    known: Provider,
) -> None:
    caller = await find(known, known.token(groups=["ml", "ops"]))
    assert (caller.name, caller.groups) == ("ann", ("ml", "ops"))
    assert caller.roles == ("submitter", "operator")
    assert caller.queue_roles == {"vision": ("admin",)}
    assert caller.is_person


async def test_names_and_groups_come_from_the_claims_that_settings_name(known: Provider) -> None:
    issuers = Issuers(
        [
            known.issuer(
                name_claim="email", groups_claim="teams", name_prefix="x:", group_prefix="y:"
            )
        ],
        (),
        Clock(),
    )
    token = known.token(email="ann@example.org", email_verified=True, teams="ml")
    caller = await find(known, token, issuers)
    assert (caller.name, caller.groups) == ("x:ann@example.org", ("y:ml",))
    unverified = known.token(email="ann@example.org", teams="ml")
    assert "that is not verified" in await refusal(known, unverified, issuers)


@pytest.mark.parametrize("kind", ["RS256", "ES256", "EdDSA"])
async def test_all_kinds_of_keys_that_are_allowed_are_understood(
    known: Provider, kind: str
) -> None:
    known.rotate("other", kind=kind)
    assert (await find(known, known.token("other"))).name == "ann"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1_000}, "expired"),
        ({"exp": None}, 'missing the "exp"'),
        ({"aud": "another"}, "Audience"),
        ({"aud": None}, '"aud"'),
        ({"iss": "https://evil.example"}, "not a configured issuer"),
        ({"iss": None}, "not a configured issuer"),
        ({"nbf": time.time() + 3_600}, "not yet valid"),
        ({"sub": None}, "that is a name"),
        ({"sub": ""}, "that is a name"),
        ({"sub": "a\nb"}, "that is a name"),
        ({"sub": "group:ops"}, "begins with"),
        ({"groups": {"a": 1}}, "not a list of names"),
        ({"groups": [1]}, "not a list of names"),
        ({"groups": ["g"] * 1_001}, "not a list of names"),
    ],
)
async def test_invalid_claims_are_refused(
    known: Provider, claims: dict[str, Any], why: str
) -> None:
    assert why in await refusal(known, known.token(**claims))


async def test_small_clock_differences_are_tolerated(known: Provider) -> None:
    assert (await find(known, known.token(exp=time.time() - 10))).name == "ann"
    assert "expired" in await refusal(known, known.token(exp=time.time() - 60))


async def test_a_token_without_signature_is_refused(known: Provider) -> None:
    assert "'none', which is not allowed" in await refusal(known, unsigned(known.token()))


async def test_a_token_signed_with_the_public_key_as_secret_is_refused(known: Provider) -> None:
    """The confusion of algorithms: HMAC under the text of the public key."""
    _, private = known.keys["one"]
    public = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    said = known.token().split(".")[1]
    signed = f"{encoded(HMAC_HEADER)}.{said}"
    forged = f"{signed}.{encoded(hmac.digest(public, signed.encode(), 'sha256'))}"
    assert "'HS256', which is not allowed" in await refusal(known, forged)


async def test_an_algorithm_must_be_that_of_its_key(known: Provider) -> None:
    issuers = Issuers([known.issuer(algorithms=("RS256", "PS256"))], (), Clock())
    assert "its key is not for" in await refusal(known, known.token(algorithm="PS256"), issuers)


async def test_a_modified_token_is_refused(known: Provider) -> None:
    header, claims, signature = known.token().split(".")
    other = known.token(sub="root").split(".")[1]
    assert "Signature" in await refusal(known, f"{header}.{other}.{signature}")
    for broken in ("a.b.c", f"{header}.{claims}.", "..", f"{header}.{claims}.{'A' * 20_000}"):
        await refusal(known, broken)


async def test_a_key_of_another_issuer_is_refused(known: Provider) -> None:
    token = known.token()
    known.keys = {}
    known.rotate("one")
    assert "Signature" in await refusal(known, token)


async def test_rotated_keys_are_fetched(known: Provider) -> None:
    clock = Clock()
    issuers = Issuers([known.issuer()], (), clock)
    await find(known, known.token("one"), issuers)
    known.rotate("one", "two")
    clock.now_s += oidc.REFETCH_S
    assert (await find(known, known.token("two"), issuers)).name == "ann"
    assert known.fetched == 2
    old = known.token("one", sub="bob")
    known.rotate("two")
    clock.now_s += 3_601
    assert "does not publish" in await refusal(known, old, issuers)


async def test_fetches_for_unknown_keys_are_limited(known: Provider) -> None:
    clock = Clock()
    issuers = Issuers([known.issuer()], (), clock)
    await find(known, known.token(), issuers)
    good = dict(known.keys)
    known.rotate("forged")
    forged = [known.token("forged", sub=f"eve-{number}") for number in range(20)]
    known.keys = good
    for token in forged:
        await refusal(known, token, issuers)
    assert known.fetched == 1
    clock.now_s += oidc.REFETCH_S
    for token in forged:
        await refusal(known, token, issuers)
    assert known.fetched == 2


async def test_cached_keys_work_while_the_provider_is_unavailable(known: Provider) -> None:
    clock = Clock()
    issuers = Issuers([known.issuer(keys_s=60)], (), clock)
    await find(known, known.token(), issuers)
    known.is_away = True
    clock.now_s += 3_600
    assert (await find(known, known.token(sub="bob"), issuers)).name == "bob"
    clock.now_s += oidc.STALE_S
    with pytest.raises(IssuerUnavailable, match="answered 500"):
        await find(known, known.token(sub="eve"), issuers)
    known.is_away = False
    clock.now_s += oidc.REFETCH_S
    assert (await find(known, known.token(sub="eve"), issuers)).name == "eve"


async def test_a_discovery_document_of_another_issuer_is_refused(
    known: Provider,
) -> None:
    known.says = "https://evil.example"
    with pytest.raises(IssuerUnavailable, match=r"it calls itself 'https://evil\.example'"):
        await find(known, known.token())


async def test_an_unavailable_provider_is_an_outage() -> None:
    gone = Provider("http://127.0.0.1:1")
    with pytest.raises(IssuerUnavailable, match="returned no keys"):
        await find(gone, gone.token())


async def test_a_verified_token_is_cached_until_it_expires(
    known: Provider,
) -> None:
    clock = Clock()
    issuers = Issuers([Issuer(issuer=known.url, audience="fairlead", leeway_s=0)], (), clock)
    token = known.token(exp=time.time() + 20)
    await find(known, token, issuers)
    assert issuers.find_cached(token) is not None
    clock.now_s += 21
    assert issuers.find_cached(token) is None
