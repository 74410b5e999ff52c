"""Every rule of docs/rules.md is named by a worked case or a test; the code names no other."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RULES = re.findall(
    r"^(?:- \*\*|\| )([SRNLEGTC][0-9]+)\b", (ROOT / "docs" / "rules.md").read_text(), re.MULTILINE
)
NAMED = re.compile(r"\b([SRNLEGTC][0-9]+)[abc]?\b(?!\")")

OF_SCHEDULER = ("task_arrays", "group_life_cycle", "group_requests", "member_records")
"""Tests of rules that housekeeping decides."""


def texts() -> str:
    """Names of cases, and whatever the tests of the engine, of groups and of arrays say."""
    cases = sorted((HERE.parents[1] / "cases").rglob("*.yaml"))
    tests = [
        *sorted(HERE.glob("test_*.py")),
        *sorted((HERE.parents[1] / "properties" / "engine").glob("*.py")),
        *((HERE.parent / "scheduler" / f"test_{name}.py") for name in OF_SCHEDULER),
    ]
    names = [line for path in cases for line in path.read_text().splitlines() if "name:" in line]
    return "\n".join([*names, *(path.read_text() for path in tests if path != Path(__file__))])


@pytest.mark.parametrize("rule", [*RULES, "section 6"])
def test_every_rule_is_named_by_a_case_or_test(rule: str) -> None:
    assert re.search(rf"\b{rule}(?![0-9])", texts(), re.IGNORECASE)


def test_every_rule_that_the_scheduler_names_is_on_the_page() -> None:
    code = (ROOT / "services" / "scheduler").rglob("*.py")
    named = {rule for file in code for rule in NAMED.findall(file.read_text())}
    assert len(named) > 30
    assert named <= set(RULES)
