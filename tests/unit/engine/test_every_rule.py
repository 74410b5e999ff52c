"""Every rule of the scheduling page is named by a worked case or a test."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RULES = [
    f"{section}{number}"
    for section, count in (("S", 6), ("R", 13), ("N", 10), ("L", 9), ("E", 5))
    for number in range(1, count + 1)
]


def texts() -> str:
    """Names of cases and whatever the tests of the engine say."""
    cases = sorted((HERE.parents[1] / "cases").rglob("*.yaml"))
    tests = [
        *sorted(HERE.glob("test_*.py")),
        *sorted((HERE.parents[1] / "properties" / "engine").glob("*.py")),
    ]
    names = [line for path in cases for line in path.read_text().splitlines() if "name:" in line]
    return "\n".join([*names, *(path.read_text() for path in tests if path != Path(__file__))])


@pytest.mark.parametrize("rule", [*RULES, "section 6"])
def test_the_rule_is_shown_by_a_case_or_a_test_that_names_it(rule: str) -> None:
    assert re.search(rf"\b{rule}(?![0-9])", texts(), re.IGNORECASE)
