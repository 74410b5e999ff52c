"""Check names, docstrings, messages, pages and documents against docs/glossary.md: `make lint`
runs it.

Of the tests it checks the names of test functions, arguments and variables. Of documents it checks
the sentences, of page templates and scripts also the names.
Findings that are listed in tools/language_exceptions.txt are accepted; an exception without a
finding is an error. `--update` writes the list again, and refuses to make it longer.
"""

import ast
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ("libs/*/fairlead*", "services/*/fairlead*", "clients/*/fairlead*", "tools")
PROGRAMS: Final = ("bench", "examples")
"""Modules here are named after what they measure or show, also where a package has that name."""
TESTS: Final = ("tests",)
PAGES: Final = ("libs/*/fairlead*", "services/*/fairlead*")
DOCUMENTS: Final = (
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CHANGELOG.md",
    "*/*/README.md",
    "docs/**/*.md",
)
GENERATED: Final = "# Generated from "
"""How a module begins that is not checked, because its source is."""

GLOSSARY: Final = "docs/glossary.md"
EXCEPTIONS: Final = "tools/language_exceptions.txt"
HEADER: Final = """\
# Accepted findings of tools/check_language.py: file and term. The list is only allowed to shrink;
# `python tools/check_language.py --update` removes the lines that are no longer needed.
"""
_NAME: Final = re.compile(r"`(\w+)`( alone)?")
_PHRASE: Final = re.compile(r'"([^"]+)"')
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_ROLE: Final = re.compile(r"^- (.*?):", re.MULTILINE)
_TEMPLATE_CODE: Final = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][\w$]*")
_MARKDOWN_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


class Finding(NamedTuple):
    """A term that a file must not contain. `place`: where it first does, for people."""

    path: str
    term: str
    place: str = ""

    @property
    def line(self) -> str:
        """Its line in the list of exceptions."""
        return f"{self.path}: {self.term}"


class Glossary(NamedTuple):
    """What must not be used, each with the term to write; `roles`: module names of many packages.

    `words` are not allowed in a name, `names` not as a whole name, `phrases` not in a text.
    """

    words: Mapping[str, str]
    names: Mapping[str, str]
    phrases: Mapping[str, str]
    roles: frozenset[str]


def parse_glossary(text: str) -> Glossary:
    """The rows of the tables and the list of roles of docs/glossary.md."""
    words: dict[str, str] = {}
    names: dict[str, str] = {}
    phrases: dict[str, str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3:
            for name, alone in _NAME.findall(cells[1]):
                (names if alone else words)[name] = cells[0]
            phrases |= dict.fromkeys(_PHRASE.findall(cells[1]), cells[0])
    heading = text.index("## Module names that mean a role")
    roles = {name for item in _ROLE.findall(text[heading:]) for name, _ in _NAME.findall(item)}
    return Glossary(words, names, phrases, frozenset(roles))


def check(root: Path) -> list[Finding]:
    """Everything that the glossary does not allow in the sources below `root`, in order."""
    glossary = parse_glossary((root / GLOSSARY).read_text())
    files = _python_files(root, SOURCES)
    found = [
        finding
        for file in (*files, *_python_files(root, PROGRAMS))
        for finding in check_file(str(file.relative_to(root)), file.read_text(), glossary)
    ]
    found += [
        finding
        for file in _python_files(root, TESTS)
        for finding in check_test_names(str(file.relative_to(root)), file.read_text(), glossary)
    ]
    found += [
        finding
        for file in _page_files(root)
        for finding in check_page(str(file.relative_to(root)), file.read_text(), glossary)
    ]
    found += [
        finding
        for pattern in DOCUMENTS
        for file in root.glob(pattern)
        if str(file.relative_to(root)) != GLOSSARY
        for finding in check_document(str(file.relative_to(root)), file.read_text(), glossary)
    ]
    found += check_base_names([str(file.relative_to(root)) for file in files], glossary)
    return sorted({finding[:2]: finding for finding in reversed(found)}.values())


def check_file(path: str, text: str, glossary: Glossary) -> Iterator[Finding]:
    """The findings in one file: in its own name, in the names that it defines and in its texts."""
    tree = ast.parse(text)
    names = [(Path(path).stem, 1)]
    variables = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.append((node.name, node.lineno))
            case ast.Constant(value=str(value)) if " " in value:
                yield from _check_phrases(path, value, node.lineno, glossary)
            case _:
                variables += _find_variable(node)
    yield from _check_names(path, names, glossary)
    # A word that means nothing alone, as `members`, is an ordinary name of a variable.
    yield from _check_names(path, variables, glossary._replace(names={}))


def _find_variable(node: ast.AST) -> list[tuple[str, int]]:
    """The argument, variable or attribute that this node of a tree defines, with its line."""
    match node:
        case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
            return [(name, node.lineno)]
        case ast.Name(id=name, ctx=ast.Store()):
            return [(name, node.lineno)]
        case _:
            return []


def check_test_names(path: str, text: str, glossary: Glossary) -> Iterator[Finding]:
    """The findings in the names of the test functions, arguments and variables of one file."""
    tests, variables = [], []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.startswith("test_"):
                    tests.append((name, node.lineno))
            case _:
                variables += _find_variable(node)
    yield from _check_names(path, tests, glossary)
    yield from _check_names(path, variables, glossary._replace(names={}))


def check_page(path: str, text: str, glossary: Glossary) -> Iterator[Finding]:
    """The findings in one page template or script: in its sentences and in its names.

    The names of a template are those in its expressions, `{{ }}` and `{% %}`.
    """
    is_template = path.endswith(".html")
    code = " ".join(_TEMPLATE_CODE.findall(text)) if is_template else text
    prose = _blank(_TEMPLATE_CODE, text) if is_template else text
    yield from _check_phrases(path, prose, 1, glossary)
    names = [(name, 1) for name in _IDENTIFIER.findall(code)]
    yield from _check_names(path, names, glossary._replace(names={}))


def check_document(path: str, text: str, glossary: Glossary) -> Iterator[Finding]:
    """The findings in the sentences of one Markdown document, without its code."""
    yield from _check_phrases(path, _blank(_MARKDOWN_CODE, text), 1, glossary)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text without what matches the pattern, with the same lines."""
    return pattern.sub(lambda match: " " + "\n" * match[0].count("\n"), text)


def _check_phrases(path: str, text: str, line: int, glossary: Glossary) -> Iterator[Finding]:
    """The findings in a text that begins at this line."""
    for phrase, term in glossary.phrases.items():
        if found := _phrase_pattern(phrase).search(text):
            at = line + text.count("\n", 0, found.start())
            yield Finding(path, f'"{phrase}"', f"line {at}: write {term}")


def _check_names(
    path: str, names: Iterable[tuple[str, int]], glossary: Glossary
) -> Iterator[Finding]:
    """The findings in names, each given with its line: a name that comes again is found once."""
    first: dict[str, int] = {}
    for name, line in names:
        first.setdefault(name, line)
    for name, line in first.items():
        words = {word.lower() for word in _WORD.findall(name)}
        whole = "_".join(word.lower() for word in _WORD.findall(name))
        for word, term in glossary.words.items():
            if word in words or f"_{word}_" in f"_{whole}_":
                yield Finding(path, f"`{word}`", f"line {line}: {name}, write {term}")
        if whole in glossary.names:
            term = glossary.names[whole]
            yield Finding(path, f"`{whole}` alone", f"line {line}: {name}, write {term}")


def _page_files(root: Path) -> list[Path]:
    """The page templates and scripts of this repository, in order, without minified libraries."""
    return sorted(
        file
        for pattern in PAGES
        for folder in root.glob(pattern)
        for file in folder.rglob("*")
        if file.suffix in (".html", ".js") and not file.name.endswith(".min.js")
    )


def _python_files(root: Path, folders: Iterable[str]) -> list[Path]:
    """The modules below the folders that match these patterns, in order, without generated ones."""
    return sorted(
        file
        for pattern in folders
        for folder in root.glob(pattern)
        for file in folder.rglob("*.py")
        if "__pycache__" not in file.parts and not file.read_text().startswith(GENERATED)
    )


def check_base_names(paths: Iterable[str], glossary: Glossary) -> Iterator[Finding]:
    """Modules with the same name in two folders, unless the name means a role."""
    by_name = defaultdict(list)
    for path in paths:
        by_name[Path(path).stem].append(path)
    for name, same in by_name.items():
        if len(same) > 1 and name not in glossary.roles:
            for path in same:
                others = ", ".join(other for other in same if other != path)
                yield Finding(path, f"module {name}", f"the same name as {others}")


def compare(found: Iterable[Finding], accepted: Iterable[str]) -> list[str]:
    """What has to change: findings that are not accepted, and exceptions without a finding."""
    lines = {finding.line: finding for finding in found}
    listed = set(accepted)
    new = [f"{lines[line].line} ({lines[line].place})" for line in sorted(lines.keys() - listed)]
    stale = [
        f"{EXCEPTIONS}: remove the line {line!r}, or run `python tools/check_language.py --update`"
        for line in sorted(listed - lines.keys())
    ]
    return new + stale


def read_exceptions(root: Path) -> list[str]:
    """The lines of the list of exceptions, without its comment."""
    lines = (root / EXCEPTIONS).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def update(root: Path, found: Iterable[Finding]) -> str | None:
    """Write the list of exceptions again; the reason if it is not allowed to be that long."""
    lines = sorted({finding.line for finding in found})
    before = len(read_exceptions(root))
    if len(lines) > before:
        return f"There are {len(lines)} findings and only {before} exceptions; correct the new ones"
    (root / EXCEPTIONS).write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return None


@functools.cache
def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def main(arguments: list[str]) -> int:
    """Print what has to change; 1 if there is anything."""
    found = check(ROOT)
    errors = compare(found, read_exceptions(ROOT))
    if arguments == ["--update"]:
        refused = update(ROOT, found)
        errors = [*errors, refused] if refused else []
    sys.stderr.writelines(f"{error}\n" for error in errors)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
