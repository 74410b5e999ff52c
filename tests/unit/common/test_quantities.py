"""Kubernetes quantities in, integers in fixed units out."""

from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.scheduling.quantities import AMOUNT_MAX, CPU, GPU, MEMORY

GOOD = {
    "cores": (CPU, "2", 2_000),
    "a number": (CPU, 2, 2_000),
    "a fraction of a number": (CPU, 0.5, 500),
    "millicores": (CPU, "250m", 250),
    "microcores round up": (CPU, "1u", 1),
    "nanocores": (CPU, "5000000n", 5),
    "a point": (CPU, "1.5", 1_500),
    "a leading point": (CPU, ".5", 500),
    "a trailing point": (CPU, "2.", 2_000),
    "a plus": (CPU, "+2", 2_000),
    "nothing": (CPU, "0", 0),
    "bytes": (MEMORY, "128", 128),
    "decimal suffixes": (MEMORY, "1k", 1_000),
    "mega is not milli": (MEMORY, "1M", 1_000_000),
    "a thousandth of a byte rounds up": (MEMORY, "1m", 1),
    "binary suffixes": (MEMORY, "4Gi", 4 * 2**30),
    "a part of a binary suffix": (MEMORY, "1.5Ki", 1_536),
    "an exponent": (MEMORY, "12e3", 12_000),
    "a capital exponent": (MEMORY, "12E3", 12_000),
    "exa is not an exponent": (GPU, "0E", 0),
    "a negative exponent": (CPU, "5e-1", 500),
    "devices": (GPU, "8", 8),
    "the most there is": (MEMORY, "8Pi", AMOUNT_MAX),
}
BAD = {
    "nothing": ("", "is not a quantity"),
    "a word": ("much", "is not a quantity"),
    "a unit that is none": ("1.5x", "is not a quantity"),
    "a byte sign": ("4GiB", "is not a quantity"),
    "a small k with an i": ("4ki", "is not a quantity"),
    "spaces": ("4 Gi", "is not a quantity"),
    "a line end": ("4\n", "is not a quantity"),
    "a comma": ("1,5", "is not a quantity"),
    "a point alone": (".", "is not a quantity"),
    "digits of another script": ("٤", "is not a quantity"),
    "infinity": (float("inf"), "is not a quantity"),
    "no number": (float("nan"), "is not a quantity"),
    "true": (True, "is not a quantity"),
    "an endless number": ("1" * 31, "is not a quantity"),
    "an endless exponent": ("1e100", "is not a quantity"),
    "less than nothing": ("-1", "is negative"),
    "a little less than nothing": ("-0.1Gi", "is negative"),
    "more than any machine": ("1Ei", "exceeds the maximum amount"),
    "far more than any machine": ("1e99", "exceeds the maximum amount"),
}


@pytest.mark.parametrize("text", ["0.5", 0.5, "500m", "1.5", "1e-1"])
@pytest.mark.parametrize("resource", [GPU, "amd.com/gpu", "licences"])
def test_a_part_of_a_device_is_refused(resource: str, text: str | float) -> None:
    for round_up in (True, False):
        with pytest.raises(ValueError, match=f"not a whole number; {resource} is counted in whole"):
            quantities.parse_quantity(resource, text, round_up=round_up)


def test_parts_of_processors_and_bytes_are_amounts() -> None:
    for resource in (CPU, MEMORY, "ephemeral-storage", "hugepages-2Mi"):
        assert quantities.parse_quantity(resource, "0.5", round_up=True) > 0


def test_a_limit_recorded_by_an_older_version_counts_rounded_down() -> None:
    assert quantities.parse_recorded_limit(GPU, "1.5") == 1


@pytest.mark.parametrize(("resource", "text", "want"), GOOD.values(), ids=GOOD.keys())
def test_a_quantity_is_read_as_kubernetes_reads_it(
    resource: str, text: str | int | float, want: int
) -> None:
    assert quantities.parse_quantity(resource, text, round_up=True) == want


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD.keys())
def test_an_invalid_amount_is_refused_with_the_reason(text: str | float, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        quantities.parse_quantity(MEMORY, text, round_up=True)


def test_a_request_rounds_up_and_a_capacity_down() -> None:
    assert quantities.parse_quantity(CPU, "1.0001", round_up=True) == 1_001
    assert quantities.parse_quantity(CPU, "1.0001", round_up=False) == 1_000


DECIMALS = st.decimals("0", "9e9", places=6, allow_nan=False, allow_infinity=False)
SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "Ki": 2**10, "Mi": 2**20}


@given(DECIMALS, st.sampled_from(sorted(SUFFIXES)), st.sampled_from([CPU, MEMORY, GPU]))
def test_rounding_is_exact_and_only_to_the_next_unit(
    number: Decimal, suffix: str, resource: str
) -> None:
    exact = number * SUFFIXES[suffix] * (1_000 if resource == CPU else 1)
    assume(exact < AMOUNT_MAX)
    assume(resource != GPU or exact == int(exact))
    text = f"{number:f}{suffix}"
    up = quantities.parse_quantity(resource, text, round_up=True)
    down = quantities.parse_quantity(resource, text, round_up=False)
    assert down <= exact <= up
    assert up - down == (0 if exact == int(exact) else 1)


@given(
    st.integers(0, AMOUNT_MAX),
    st.sampled_from([CPU, MEMORY, GPU, "ephemeral-storage"]),
    st.booleans(),
)
def test_a_written_amount_is_read_back_the_same(amount: int, resource: str, round_up: bool) -> None:
    text = quantities.format_quantity(resource, amount)
    assert quantities.parse_quantity(resource, text, round_up=round_up) == amount


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_refused_with_a_sentence(text: str) -> None:
    try:
        amount, refusal = quantities.parse_quantity(CPU, text, round_up=True), repr(text)
    except ValueError as error:
        amount, refusal = 0, str(error)
    assert repr(text) in refusal
    assert 0 <= amount <= AMOUNT_MAX


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        (CPU, 2_000, "2"),
        (CPU, 250, "250m"),
        (CPU, 0, "0"),
        (MEMORY, 4 * 2**30, "4Gi"),
        (MEMORY, 1_536, "1536"),
        (MEMORY, 0, "0"),
        (GPU, 2_048, "2048"),
    ],
)
def test_an_amount_is_written_short(resource: str, amount: int, text: str) -> None:
    assert quantities.format_quantity(resource, amount) == text


def test_reports_show_cores_and_bytes() -> None:
    assert quantities.to_number(CPU, 1_500) == 1.5
    assert quantities.to_number(MEMORY, 4_096) == 4_096
