"""The fast and the slow way of decoding agree, and the slow one names every error."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_submit.domain import request_types
from tests.example_numbers import EXAMPLES

DECODER = Decoder(request_types.Submission)

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["reject", "requeue", "wait", "oom", "\0", "\\u0000"]),
)
names = st.one_of(st.sampled_from(request_types.Job.__struct_encode_fields__), st.text(max_size=4))
things = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(names, st.sampled_from(request_types.Gang.__struct_encode_fields__)),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
submissions = st.fixed_dictionaries(
    {"queue": st.one_of(st.just("q"), things), "jobs": st.lists(st.dictionaries(names, things))},
    optional={"jobSet": things, "defaults": things, "more": things},
)


def slowly(body: bytes) -> tuple[request_types.Submission, list[FieldError]] | Problem:
    try:
        return DECODER.decode_with_errors(body)
    except Problem as problem:
        return problem


@given(document=st.one_of(submissions, things))
@settings(max_examples=EXAMPLES or 150)
def test_the_slow_decoder_finds_errors_exactly_where_the_fast_one_fails(
    document: object,
) -> None:
    body = msgspec.json.encode(document)
    fast = DECODER.decode_valid(body)
    decoded = slowly(body)
    if isinstance(decoded, Problem):
        assert decoded.field_errors
        assert fast is None
        return
    slow, found = decoded
    if fast is not None:
        assert found == []
        assert msgspec.json.encode(slow) == msgspec.json.encode(fast)
        return
    if b"\\u0000" not in body:
        assert bool(found) == (not is_decoded_as_it_is(body))
        assert all(error.pointer == "" or error.pointer[0] == "/" for error in found)


def is_decoded_as_it_is(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=request_types.Submission)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


REPEATED = {
    "at the top": (b'{"queue": "a", "queue": "a"}', ["/queue"]),
    "in a job": (b'{"jobs": [{}, {"cpu": 1, "cpu": 2}]}', ["/jobs/1/cpu"]),
    "written in two ways": (b'{"jobs": [{"cpu": 1, "\\u0063pu": 2}]}', ["/jobs/0/cpu"]),
    "in a free part": (
        b'{"jobs": [{"labels": {"a/b": "x", "a/b": "y"}}]}',
        ["/jobs/0/labels/a~1b"],
    ),
    "in a pod spec": (
        b'{"jobs": [{"podSpec": {"a": [{"b": 1, "b": 2}]}, "cpu": null}]}',
        ["/jobs/0/podSpec/a/0/b"],
    ),
    "beside a colon that is written in another way": (
        b'{"queue": "\\u003a\\u003A", "queue": "\\u003a"}',
        ["/queue"],
    ),
    "beside a null": (b'{"queue": null, "jobs": [], "jobs": []}', ["/jobs"]),
}


@pytest.mark.parametrize(("body", "pointers"), REPEATED.values(), ids=REPEATED.keys())
def test_a_duplicate_name_is_an_error(body: bytes, pointers: list[str]) -> None:
    assert DECODER.decode_valid(body) is None
    _, found = DECODER(body)
    assert [error.pointer for error in found] == pointers


@given(document=things)
def test_a_body_without_its_invalid_fields_is_valid(document: object) -> None:
    _, validated = validation.validate_document(document, request_types.Submission)
    if validated is not None:
        again, _ = validation.validate_document(validated, request_types.Submission)
        assert again == []


def test_pointers_are_escaped() -> None:
    found, _ = validation.validate_document({"a/b~c": 1}, request_types.Submission)
    assert [error.pointer for error in found] == ["/a~1b~0c"]


@pytest.mark.parametrize("empty", [b"{}", b"[]"])
def test_too_many_objects_and_lists_are_refused_before_they_use_memory(empty: bytes) -> None:
    with pytest.raises(Problem) as refused:
        DECODER(b"[" + (empty + b",") * 700_000 + empty + b"]")
    assert refused.value.slug == "too-large"


def with_values(count: int) -> bytes:
    """A body of this many values, the body itself among them, that repeats a name."""
    return b'{"queue": "a", "queue": "b", "more": [' + b"1," * (count - 4) + b"1]}"


def test_names_are_not_searched_in_bodies_with_too_many_values() -> None:
    """The search takes seconds then, for which the event loop waits."""
    _, found = DECODER(with_values(validation.VALUES_MAX))
    assert [error.pointer for error in found] == ["/queue", "/more"]
    with pytest.raises(Problem) as refused:
        DECODER(with_values(validation.VALUES_MAX + 1))
    assert [error.pointer for error in refused.value.field_errors] == ["/more", ""]


def test_commas_in_texts_are_not_values() -> None:
    text = "," * (validation.VALUES_MAX + 1)
    body = msgspec.json.encode({"queue": None, "jobs": [{"command": [text]}]})
    assert DECODER(body)[1] == []


def test_messages_do_not_repeat_long_values() -> None:
    found, _ = validation.validate_document(
        {"queue": "x" * 10, "jobs": "y" * 9_999}, request_types.Submission
    )
    assert len(found[0].detail) < 200


def test_only_the_first_of_very_many_errors_are_listed() -> None:
    with pytest.raises(Problem) as refused:
        DECODER(b'{"jobs": [' + b"1," * 50_000 + b"1]}")
    assert len(refused.value.field_errors) == validation.ERRORS_MAX
    assert refused.value.detail.startswith("The request has at least 1000 errors")
