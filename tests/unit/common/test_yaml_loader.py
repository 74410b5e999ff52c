"""The values and the errors of YAML documents, whichever parser reads them."""

from pathlib import Path

import pytest
import yaml

from fairlead_common.service import yaml_loader
from fairlead_common.service.yaml_loader import CoreLoader

CASES = sorted((Path(__file__).parents[2] / "cases").rglob("*.yaml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a:\nb: ~", {"a": None, "b": None}),
        ("on: 12:30", {"on": "12:30"}),
        ("[0o17, 0x1f, -3, 010, 1.5, .inf]", [15, 31, -3, 10, 1.5, float("inf")]),
        ("[true, yes, 'true', \"1\"]", [True, "yes", "true", "1"]),
        ("2026-01-01", "2026-01-01"),
        ("&a {b: [1, 'é😀']}", {"b": [1, "é😀"]}),
    ],
)
def test_plain_scalars_have_the_types_of_the_core_schema(text: str, value: object) -> None:
    assert yaml_loader.load(text) == value


@pytest.mark.parametrize("path", CASES[::7], ids=lambda path: str(path.stem))
def test_the_fast_parser_gives_the_values_of_the_other_one(path: Path) -> None:
    text = path.read_text()
    assert yaml_loader.load(text) == yaml.load(text, CoreLoader)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: [1,\nc: 2\n", 4, "expected ',' or ']'"),
        ("a: 1\n\tb: 2\n", 2, "found character '\\t'"),
        ("x: 1\na: *y\n", 2, "found undefined alias 'y'"),
        ("x: 1\na: {b: 1,\n  b: 2}\n", 3, "the key 'b' is given twice"),
    ],
)
def test_an_error_names_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as error:
        yaml_loader.load(text)
    mark = error.value.problem_mark
    assert mark is not None
    assert mark.line + 1 == line
    assert problem in str(error.value.problem)
