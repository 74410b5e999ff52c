"""Sealing secret values, and what is shown of them."""

import msgspec
import pytest

from fairlead_common.domain.secret_values import DecryptionFailed, Keyring, without_sealed

RING = Keyring("one")


@pytest.mark.parametrize("value", ["", "x", "pässword\n", "y" * 40_000])
def test_a_sealed_value_can_be_opened_only_for_its_queue(value: str) -> None:
    sealed = RING.seal("q", value)
    assert RING.open("q", sealed) == value
    assert len(value) < 4 or value not in sealed
    with pytest.raises(DecryptionFailed):
        RING.open("other", sealed)


def test_sealing_is_deterministic() -> None:
    assert RING.seal("q", "x") == RING.seal("q", "x") != RING.seal("q", "y")


def test_an_older_key_still_opens_and_a_removed_one_does_not() -> None:
    sealed = RING.seal("q", "x")
    both = Keyring("two, one")
    assert both.open("q", sealed) == "x"
    assert both.seal("q", "x") == Keyring("two").seal("q", "x")
    with pytest.raises(DecryptionFailed):
        Keyring("two").open("q", sealed)
    assert not Keyring("")


@pytest.mark.parametrize("broken", ["", "1", "1.x", "2.a.b", "1.{name}.", "1.{name}.AAAA", "ü"])
def test_a_damaged_text_is_refused_without_being_repeated(broken: str) -> None:
    name = RING.seal("q", "x").split(".")[1]
    with pytest.raises(DecryptionFailed):
        RING.open("q", broken.format(name=name))


def test_sealed_texts_are_removed_from_a_spec() -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [
        {"name": "A", "value": "open"},
        {"name": "B", "sealed": "1.a.b"},
        {"name": "C", "valueFrom": reference, "sealed": "1.c.d"},
    ]
    spec = msgspec.Raw(msgspec.json.encode({"containers": [{"name": "main", "env": env}]}))
    decoded = msgspec.json.decode(without_sealed(spec))
    assert decoded["containers"][0]["env"] == [
        {"name": "A", "value": "open"},
        {"name": "B", "secret": True},
        {"name": "C", "valueFrom": reference},
    ]
    plain = msgspec.Raw(b'{"containers": []}')
    assert without_sealed(plain) is plain
