"""Shapes: equal ones are equal bytes, and a shape with its class has a short name."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.scheduling import shapes

WORDS = st.text('abc./-é"\\', max_size=6)
TOLERATIONS = st.builds(
    shapes.Toleration,
    key=WORDS,
    operator=st.sampled_from(["Equal", "Exists"]),
    value=WORDS,
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)
REQUIREMENTS = st.builds(
    shapes.Requirement,
    key=WORDS,
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    values=st.lists(WORDS, max_size=2).map(tuple),
)
TERMS = st.builds(
    shapes.SelectorTerm,
    match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple),
    match_fields=st.lists(REQUIREMENTS, max_size=1).map(tuple),
)
SHAPES = st.builds(
    shapes.Shape,
    requests=st.dictionaries(WORDS, st.integers(0, 2**53), max_size=3),
    node_selector=st.dictionaries(WORDS, WORDS, max_size=3),
    affinity=st.lists(TERMS, max_size=2).map(tuple),
    tolerations=st.lists(TOLERATIONS, max_size=2).map(tuple),
    preferred=st.lists(
        st.builds(shapes.Preference, weight=st.integers(1, 100), term=TERMS), max_size=2
    ).map(tuple),
)


def reordered(shape: shapes.Shape) -> shapes.Shape:
    """The same shape, its mappings filled the other way round."""
    return shapes.Shape(
        requests=dict(reversed(shape.requests.items())),
        node_selector=dict(reversed(shape.node_selector.items())),
        affinity=shape.affinity,
        tolerations=shape.tolerations,
        preferred=shape.preferred,
    )


@given(SHAPES)
def test_equal_shapes_are_equal_bytes_whatever_the_order_of_their_parts(
    shape: shapes.Shape,
) -> None:
    assert bytes(shapes.encode(shape)) == bytes(shapes.encode(reordered(shape)))


@given(SHAPES, SHAPES)
def test_different_shapes_are_different_bytes(one: shapes.Shape, two: shapes.Shape) -> None:
    assert (one == two) == (bytes(shapes.encode(one)) == bytes(shapes.encode(two)))


@given(SHAPES)
def test_a_shape_is_read_back_the_same(shape: shapes.Shape) -> None:
    assert shapes.decode(shapes.encode(shape)) == shape
    assert shapes.decode(bytes(shapes.encode(shape))) == shape


def test_defaults_are_not_encoded() -> None:
    plain = shapes.Shape(requests={"memory": 1, "cpu": 1_000})
    assert bytes(shapes.encode(plain)) == b'{"requests":{"cpu":1000,"memory":1}}'


@given(SHAPES, st.sampled_from(["default", "low", ""]))
def test_a_shape_and_its_class_have_a_name_of_16_digits(shape: shapes.Shape, name: str) -> None:
    raw = bytes(shapes.encode(shape))
    assert re.fullmatch("[0-9a-f]{16}", shapes.key(raw, name))
    assert shapes.key(raw, name) == shapes.key(raw, name)
    assert shapes.key(raw, name) != shapes.key(raw, name + "2")


def test_the_name_is_the_same_in_every_version() -> None:
    raw = b'{"requests":{"cpu":1000}}'
    assert shapes.key(raw, "default") == "ca890044f5057808"


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"requests":{"cpu":"1"}}'])
def test_an_invalid_shape_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Object|Expected|truncated"):
        shapes.decode(raw)
