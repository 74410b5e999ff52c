"""Habits of the house that no linter knows: what every file has, and what none does."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ALL, ROOT, Source, references, sources

MARKS = ("TO" + "DO", "FIX" + "ME", "XX" + "X")

BROAD = {
    "services/executor/fairlead_executor/backends/process/runner.py": (
        "the runner's only way to tell is the record that it leaves"
    ),
    "services/lookout/fairlead_lookout/http/pages/live_fragments.py": (
        "the error of a fragment is logged and raised in each of its followers"
    ),
    "services/scheduler/fairlead_scheduler/service/cycle.py": (
        "a failing pool is logged, counted, shown and tried again; it does not stop the others"
    ),
}
"""Files that catch everything without raising it or something else, and why."""


def test_every_module_has_a_docstring() -> None:
    silent = [s.path for s in sources(*ALL) if s.text.strip() and not ast.get_docstring(s.tree)]
    assert not silent


def test_no_comment_contains_a_todo() -> None:
    assert not [s.path for s in sources(*ALL) if any(mark in s.text for mark in MARKS)]


def test_dependencies_are_arguments_and_never_mocked() -> None:
    mocks = ("unittest.mock", "pytest_mock")
    assert not [
        f"{source.path}:{reference.line}"
        for source in sources(*ALL)
        for reference in references(source)
        if reference.name.startswith(mocks)
    ]


def test_our_own_code_is_never_patched() -> None:
    assert not [place for source in sources(*ALL) for place in _patches(source)]


def _patches(source: Source) -> Iterator[str]:
    """Where pytest's `monkeypatch` replaces an attribute of something else than `sys` or `os`."""
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "monkeypatch.setattr"
            and ast.unparse(node.args[0]) not in ("sys", "os")
        ):
            yield f"{source.path}:{node.lineno}"


def test_broad_exception_handlers_raise_again() -> None:
    assert {place.partition(":")[0] for place in _hiding()} == BROAD.keys(), list(_hiding())


def _hiding() -> Iterator[str]:
    """Where everything is caught and nothing raised."""
    for source in sources(*ALL):
        for node in ast.walk(source.tree):
            match node:
                case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException")):
                    if not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
                        yield f"{source.path}:{node.lineno}"
                case _:
                    continue


def test_tests_do_not_sleep() -> None:
    assert not [place for source in sources("tests") for place in _idle_waits(source)]


def _idle_waits(source: Source) -> Iterator[str]:
    """Sleeps of a fixed time outside of a `while` that looks whether it is there yet."""
    searches = {
        id(inner)
        for loop in ast.walk(source.tree)
        if isinstance(loop, ast.While)
        for inner in ast.walk(loop)
    }
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
            and isinstance(node.args[0], ast.Constant)
            and node.args[0].value
            and id(node) not in searches
        ):
            yield f"{source.path}:{node.lineno}"


@pytest.mark.parametrize("service", ["submit", "scheduler", "executor", "lookout"])
def test_the_readme_of_a_service_is_short_and_complete(service: str) -> None:
    text = (ROOT / "services" / service / "README.md").read_text()
    assert len(text.splitlines()) <= 60
    assert all(word in text.lower() for word in ("decides", "reads", "writes"))
