"""The Python files of the repository, parsed once, and small questions about them."""

import ast
import functools
import gc
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent.parent
SERVERS: Final = ("libs", "services")
ALL: Final = (*SERVERS, "clients", "tests", "bench", "tools", "examples")
LEFT_OUT: Final = frozenset({"__pycache__", "build", "dist"})


class Source(NamedTuple):
    """One file. `path` is relative to the repository."""

    path: str
    text: str
    tree: ast.Module


class Reference(NamedTuple):
    """Something imported, by its full name (`time.monotonic`), whatever it is called here."""

    name: str
    line: int


@functools.cache
def sources(*folders: str) -> list[Source]:
    """The files below these folders, in order.

    The garbage collector does not visit their millions of nodes, here and in all later tests.
    """
    gc.disable()
    try:
        return [
            _parse(file)
            for folder in folders
            for file in sorted((ROOT / folder).rglob("*.py"))
            if LEFT_OUT.isdisjoint(file.parts)
        ]
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def _parse(file: Path) -> Source:
    return Source(str(file.relative_to(ROOT)), text := file.read_text(), ast.parse(text))


@functools.cache
def references(source: Source) -> tuple[Reference, ...]:
    """Every mention of something imported, called or handed on."""
    names = _imported(source.tree)
    inner = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            head, _, rest = _dotted(node).partition(".")
            if head in names:
                found.append(Reference(f"{names[head]}.{rest}".rstrip("."), node.lineno))
    return tuple(found)


def _imported(tree: ast.Module) -> dict[str, str]:
    """The name in this file -> the full name of what it stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=items):
                for item in items:
                    first = item.name.partition(".")[0]
                    names[item.asname or first] = item.name if item.asname else first
            case ast.ImportFrom(module=str(module), names=items, level=0):
                names |= {item.asname or item.name: f"{module}.{item.name}" for item in items}
            case _:
                continue
    return names


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            before = _dotted(value)
            return f"{before}.{attr}" if before else ""
        case _:
            return ""
