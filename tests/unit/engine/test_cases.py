"""The worked cases, on the bare engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.engine import casefile

CASES = casefile.load()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_worked_case_comes_out_as_written(case: dict[str, Any]) -> None:
    assert casefile.run(case) == []
