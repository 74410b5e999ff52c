"""A service reads another's schema only through views that the owner defines and documents."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.architecture.sources import ROOT, sources

OWNERS: Final = {
    "libs/common": "fairlead_log",
    "services/submit": "fairlead_submit",
    "services/scheduler": "fairlead_scheduler",
    "services/executor": "fairlead_executor",
    "services/lookout": "fairlead_lookout",
    "services/standalone": "fairlead_standalone",
}
"""Folder of a package -> the schema that it owns, if it has one."""

_RELATION: Final = re.compile(rf"\b({'|'.join(OWNERS.values())})\.(\w+)")
_KEYWORD: Final = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|TRUNCATE|CREATE|ALTER|DROP|LOCK|COPY|to_regclass)\b"
)
_WRITE: Final = re.compile(r"\b(INTO|UPDATE|DELETE\s+FROM|TRUNCATE|TABLE|COPY)\s+(\w+\.\w+)")
_VIEW: Final = re.compile(r"\b(CREATE(?:\s+OR\s+REPLACE)?|DROP)\s+VIEW\s+(?:IF\s+EXISTS\s+)?(\S+)")
_COMMENT: Final = re.compile(r"--[^\n]*")


class Use(NamedTuple):
    """A relation that a SQL text names. `package`: the folder that holds the text."""

    package: str
    file: str
    relation: str
    is_written: bool


def uses_in(package: str, file: str, sql: str) -> Iterator[Use]:
    """The relations of Fairlead's schemas that a SQL text names."""
    text = _COMMENT.sub("", sql)
    written = {match[2] for match in _WRITE.finditer(text)}
    for match in _RELATION.finditer(text):
        yield Use(package, file, match[0], match[0] in written)


def sql_in_python(tree: ast.Module) -> Iterator[str]:
    """The string constants of a module that are SQL; docstrings are not."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and _KEYWORD.search(node.value):
            yield node.value


def sql_files(package: str) -> list[Path]:
    """The SQL files of a package, migrations in order."""
    return sorted((ROOT / package).rglob("*.sql"))


def all_uses() -> list[Use]:
    """Every use of a relation in the SQL of any package."""
    found: list[Use] = []
    for package in OWNERS:
        for file in sql_files(package):
            found += uses_in(package, str(file.relative_to(ROOT)), file.read_text())
        for source in sources(package):
            for text in sql_in_python(source.tree):
                found += uses_in(package, source.path, text)
    return found


def views_of(package: str) -> set[str]:
    """The views that the migrations of a package leave behind."""
    views: set[str] = set()
    for file in sql_files(package):
        if file.parent.name == "migrations":
            for verb, name in _VIEW.findall(_COMMENT.sub("", file.read_text())):
                (views.discard if verb == "DROP" else views.add)(name.rstrip(";"))
    return views


def foreign(uses: list[Use]) -> list[Use]:
    """The uses of relations that the package does not own."""
    return [use for use in uses if use.relation.partition(".")[0] != OWNERS[use.package]]


def violations(uses: list[Use], views: set[str]) -> list[Use]:
    """Foreign uses that write, or that name something other than one of these views."""
    return [use for use in foreign(uses) if use.is_written or use.relation not in views]


VIEWS: Final = {view for package in OWNERS for view in views_of(package)}


def test_services_read_other_schemas_through_views_only() -> None:
    assert violations(all_uses(), VIEWS) == []


def test_readme_of_the_owner_lists_each_view_that_others_read() -> None:
    readmes = {
        schema: readme.read_text()
        for package, schema in OWNERS.items()
        if (readme := ROOT / package / "README.md").exists()
    }
    read_by_others = sorted({use.relation for use in foreign(all_uses())})
    assert len(read_by_others) >= 8, "the search finds the views that are read today"
    assert [
        view for view in read_by_others if f"`{view}`" not in readmes[view.partition(".")[0]]
    ] == []


def test_a_foreign_table_is_found() -> None:
    sql = "SELECT 1 FROM fairlead_lookout.found_jobs JOIN fairlead_lookout.jobs j ON true"
    found = violations(list(uses_in("services/submit", "a.sql", sql)), VIEWS)
    assert [use.relation for use in found] == ["fairlead_lookout.jobs"]


def test_a_write_to_a_foreign_view_is_found() -> None:
    sql = "DELETE FROM fairlead_submit.valid_tokens WHERE digest = $1"
    assert violations(list(uses_in("libs/common", "a.py", sql)), VIEWS)


def test_sql_in_python_is_found_and_docstrings_are_not() -> None:
    tree = ast.parse('"""SELECT is explained here."""\nX = "SELECT 1 FROM fairlead_submit.queues"')
    assert list(sql_in_python(tree)) == ["SELECT 1 FROM fairlead_submit.queues"]
