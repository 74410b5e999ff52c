"""`tools/check_language.py` finds the terms that the glossary does not allow."""

from pathlib import Path

import pytest

from tools.check_language import EXCEPTIONS, GLOSSARY, check, compare, read_exceptions, update

GLOSSARY_TEXT = """
| term | not | meaning |
| --- | --- | --- |
| middleware | `doors`, "the doors" | layers that every request passes |
| dependencies | `parts` alone, "in thought" | what a route is given |

## Module names that mean a role

- `settings`, `api`: the same role in each package
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a glossary, no exceptions and two packages without modules."""
    for folder in ("docs", "tools", "services/a/fairlead_a", "services/b/fairlead_b"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / GLOSSARY).write_text(GLOSSARY_TEXT)
    (tmp_path / EXCEPTIONS).write_text("# A comment.\n")
    return tmp_path


def terms(root: Path, text: str, name: str = "module") -> list[str]:
    """What the check finds in one module with this text."""
    (root / f"services/a/fairlead_a/{name}.py").write_text(text)
    return [finding.term for finding in check(root)]


@pytest.mark.parametrize(
    "text",
    [
        "class Doors: ...",
        "class FrontDoors: ...",
        "def open_doors(): ...",
        "async def doors(): ...",
        "def enter(doors): ...",
        "DOORS = 2",
        "class House:\n    doors: int",
        "def build(house): house.doors = 2",
        "def build():\n    doors = 2",
        "def build():\n    for doors in (): ...",
    ],
)
def test_a_word_is_not_allowed_in_a_name(root: Path, text: str) -> None:
    assert terms(root, text) == ["`doors`"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", "<p>It passes\nthe doors.</p>"),
        ("page.html", "<p>{% for each in house.doors %}{{ each }}{% endfor %}</p>"),
        ("page.js", "function openDoors() {}"),
        ("page.js", "// Through the doors."),
    ],
)
def test_pages_and_scripts_are_checked(root: Path, name: str, text: str) -> None:
    (root / f"services/a/fairlead_a/{name}").write_text(text)
    assert check(root) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", '<p class="doors">{% if "the doors" %}{{ doorstep }}{% endif %}</p>'),
        ("page.min.js", "function openDoors() {}"),
    ],
)
def test_markup_and_minified_scripts_are_not_checked(root: Path, name: str, text: str) -> None:
    (root / f"services/a/fairlead_a/{name}").write_text(text.replace("the doors", "it"))
    assert check(root) == []


def test_sentences_of_documents_are_checked_and_their_code_is_not(root: Path) -> None:
    code = "Run `in thought`:\n\n```sh\nopen the doors\n```\n"
    (root / "docs/guide.md").write_text(code)
    assert check(root) == []
    (root / "docs/guide.md").write_text(f"{code}\nIt is removed in\nthought.\n")
    (finding,) = check(root)
    assert (finding.line, finding.place[:7]) == ('docs/guide.md: "in thought"', "line 7:")


def test_a_word_is_not_allowed_in_the_name_of_a_module(root: Path) -> None:
    assert terms(root, "", name="front_doors") == ["`doors`"]


def test_a_name_that_is_not_allowed_alone_is_allowed_in_a_longer_name(root: Path) -> None:
    assert terms(root, "class Parts: ...") == ["`parts` alone"]
    assert terms(root, "def save_parts(): ...") == []


@pytest.mark.parametrize(
    "text",
    ['"""It passes the doors."""', 'x = f"{1} passes the\\n doors"', 'raise E("In thought, yes")'],
)
def test_a_phrase_is_not_allowed_in_a_docstring_or_message(root: Path, text: str) -> None:
    assert len(terms(root, text)) == 1


def test_only_test_functions_of_a_test_module_are_checked(root: Path) -> None:
    (root / "tests/unit").mkdir(parents=True)
    (root / "tests/unit/test_module.py").write_text(
        'async def test_all_doors_close() -> None:\n    """Through the doors."""\n\n\n'
        "def doors() -> None: ...\n"
    )
    (finding,) = check(root)
    assert (finding.path, finding.term) == ("tests/unit/test_module.py", "`doors`")
    assert finding.place.startswith("line 1: test_all_doors_close")


def test_words_that_only_contain_a_term_are_allowed(root: Path) -> None:
    assert (
        terms(root, 'def outdoors():\n    """Through the doorstep, in thoughtless haste."""') == []
    )


def test_two_modules_have_the_same_name_only_if_it_means_a_role(root: Path) -> None:
    for package in ("a/fairlead_a", "b/fairlead_b"):
        (root / f"services/{package}/settings.py").write_text("")
        (root / f"services/{package}/queues.py").write_text("")
    assert [finding.line for finding in check(root)] == [
        "services/a/fairlead_a/queues.py: module queues",
        "services/b/fairlead_b/queues.py: module queues",
    ]


def test_a_finding_is_accepted_only_while_it_is_listed(root: Path) -> None:
    assert terms(root, "class Doors: ...") == ["`doors`"]
    found = check(root)
    assert compare(found, [found[0].line]) == []
    (error,) = compare(found, [])
    assert "Doors, write middleware" in error


def test_an_exception_without_a_finding_is_an_error(root: Path) -> None:
    (error,) = compare(check(root), ["services/a/fairlead_a/module.py: `doors`"])
    assert "remove the line" in error


def test_an_update_removes_exceptions_and_adds_none(root: Path) -> None:
    (root / EXCEPTIONS).write_text("gone.py: `doors`\nmoved.py: `doors`\n")
    assert terms(root, "class Doors: ...") == ["`doors`"]
    assert update(root, check(root)) is None
    assert read_exceptions(root) == ["services/a/fairlead_a/module.py: `doors`"]
    assert terms(root, "class Doors: ...\nclass Parts: ...") == ["`doors`", "`parts` alone"]
    assert update(root, check(root)) is not None
    assert len(read_exceptions(root)) == 1
