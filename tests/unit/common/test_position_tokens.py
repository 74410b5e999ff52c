"""Position tokens: what a change answers with and a read is given."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain import position_tokens
from fairlead_common.domain.position_tokens import Place
from fairlead_common.log.topics import JOB_PARTITIONS

PLACES = st.dictionaries(st.integers(0, JOB_PARTITIONS - 1), st.integers(0, 2**62))


@given(PLACES)
def test_a_token_decodes_to_its_positions(places: dict[int, int]) -> None:
    assert position_tokens.decode(position_tokens.encode(places)) == Place(jobs=places)


@given(st.text(max_size=250), st.integers(1, 2**62))
def test_a_configuration_token_decodes_to_its_version(name: str, version: int) -> None:
    token = position_tokens.encode_configured(f"queue/{name}", version)
    assert position_tokens.decode(token) == Place(configured={f"queue/{name}": version})
    assert len(token) <= position_tokens.TOKEN_LENGTH_MAX


@given(PLACES)
def test_a_token_needs_no_escaping_in_a_query(places: dict[int, int]) -> None:
    token = position_tokens.encode(places)
    assert token.replace("-", "").replace("_", "").isalnum()
    assert len(token) <= position_tokens.TOKEN_LENGTH_MAX


def test_equal_positions_have_equal_tokens() -> None:
    assert position_tokens.encode({1: 2, 3: 4}) == position_tokens.encode({3: 4, 1: 2})


@given(st.text(max_size=60))
def test_any_text_is_refused_or_decodes_to_positions(token: str) -> None:
    try:
        place, refusal = position_tokens.decode(token), "the position is"
    except ValueError as error:
        place, refusal = Place(), str(error)
    assert refusal.startswith("the position is")
    assert all(0 <= partition < JOB_PARTITIONS for partition in place.jobs)


def told(text: str) -> str:
    """A token that says this."""
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        "%%%",
        told("[]"),
        told('{"32": 1}'),
        told('{"-1": 1}'),
        told('{"0": -1}'),
        told('{"0": 9223372036854775808}'),
        told('{"0": "1"}'),
        told('{"queue/a": -1}'),
        told('{"queue/a": 1, "b": 1}'),
        "A" * (position_tokens.TOKEN_LENGTH_MAX + 1),
    ],
)
def test_a_forged_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="the position is"):
        position_tokens.decode(token)


@given(PLACES, PLACES)
def test_the_later_of_two_tokens_covers_both(one: dict[int, int], two: dict[int, int]) -> None:
    merged = position_tokens.merge(one, two)
    assert merged.keys() == one.keys() | two.keys()
    assert all(merged[p] == max(one.get(p, 0), two.get(p, 0)) for p in merged)
