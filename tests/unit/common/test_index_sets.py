"""Sets of indexes behave as sets, whatever their ranges are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.ids import ArrayId, array_id, parse_task_id, task_id, task_ids
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.records.index_sets import IndexSet

ARRAY = ArrayId("0k01kzm9q5n7s8t9v2w3x4y00000")


@st.composite
def sets(draw: st.DrawFn) -> IndexSet:
    """A set of a few ranges, some of them with a step."""
    parts, least = [], 0
    for _ in range(draw(st.integers(1, 4))):
        first = least + draw(st.integers(0, 8))
        last = first + draw(st.integers(0, 15))
        parts.append(f"{first}-{last}:{draw(st.integers(1, 4))}")
        least = last + 1
    return index_sets.parse(",".join(parts))


def test_ranges_with_a_step_divide_a_set_into_a_bounded_number_together() -> None:
    """Each of these ranges alone is below the bound."""
    every = index_sets.make_full(1_000_000)
    stepped = index_sets.parse(",".join(f"{n}0000-{n}9998:2" for n in range(1, 4)))
    assert len(stepped) > index_sets.STEPPED_MAX
    for combine in (every.minus, every.common):
        with pytest.raises(ValueError, match="into more than 10000 ranges"):
            combine(stepped)


@given(sets(), sets())
def test_common_and_minus_are_those_of_sets(one: IndexSet, other: IndexSet) -> None:
    assert set(one.common(other)) == set(one) & set(other)
    assert set(one.minus(other)) == set(one) - set(other)
    assert list(one.minus(other)) == sorted(set(one.minus(other)))


@given(sets(), st.integers(0, 40))
def test_split_takes_the_smallest(one: IndexSet, count: int) -> None:
    below, above = one.split(count)
    assert list(below) + list(above) == list(one)
    assert len(below) == min(count, len(one))


@given(sets())
def test_a_set_is_its_members_and_its_text(one: IndexSet) -> None:
    assert len(one) == len(set(one))
    assert [index for index in range(100) if index in one] == list(one)
    assert list(index_sets.parse(str(one))) == list(one)
    assert list(index_sets.collect(one)) == list(one)


def test_a_million_indexes_are_one_range() -> None:
    whole = index_sets.make_full(1_000_000)
    assert (str(whole), len(whole)) == ("0-999999", 1_000_000)
    rest = whole.minus(index_sets.parse("500000-500009"))
    assert str(rest) == "0-499999,500010-999999"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "is not a number up to 9999999"),
        ("1-", "is not a number up to 9999999"),
        ("-3", "is not a number up to 9999999"),
        ("10000000", "is not a number up to 9999999"),
        ("\N{ARABIC-INDIC DIGIT THREE}", "is not a number up to 9999999"),
        ("5-4", "ends before it begins"),
        ("0-9:0", "has the step 0"),
        ("5,3", "must be ascending"),
        ("0-9,9", "must not overlap"),
        (",".join(str(2 * at) for at in range(10_001)), "has more than 10000 ranges"),
    ],
)
def test_what_is_no_set_is_refused(text: str, detail: str) -> None:
    with pytest.raises(ValueError, match=detail):
        index_sets.parse(text)


def test_a_set_that_divides_another_too_often_is_refused() -> None:
    whole = index_sets.make_full(1_000_000)
    with pytest.raises(ValueError, match="into more than 10000 ranges"):
        whole.minus(index_sets.parse("0-999999:2"))


@pytest.mark.parametrize("index", [0, 1, 30, 31, 1023, 999_999, index_sets.INDEX_MAX])
def test_the_id_of_a_task_names_its_array_and_its_index(index: int) -> None:
    job_id = task_id(ARRAY, index)
    assert parse_task_id(job_id) == (ARRAY, index)
    assert array_id(job_id) == ARRAY
    assert len(job_id) == len(ARRAY)


def test_ids_of_tasks_are_in_the_order_of_their_indexes() -> None:
    made = task_ids(ARRAY, range(2_000))
    assert made == sorted(set(made))
    assert parse_task_id(ARRAY) == (ARRAY, -1)
