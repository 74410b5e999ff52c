"""YAML with the line of everything in it, and with bounds: for faults that say where they are.

Nodes and settings are read by the rules of YAML 1.1, as the services read their settings, and
submissions by the core schema of YAML 1.2 with aliases, as `fairlead submit` reads them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import yaml

from fairlead_scheduler.simulate.input.input_errors import Faults

BYTES_MAX: Final = 16 * 1_048_576
DEPTH_MAX: Final = 32

VALUES_MAX: Final = 5_000_000
"""Of a file with its aliases written out."""
_CORE: Final = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)

Place = tuple[str | int, ...]


class _CoreLoader(yaml.SafeLoader):
    """Knows the words of YAML 1.2 for truth, numbers and nothing: `on` is a text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - a table of the class that PyYAML looks for


for _tag, _pattern, _first in _CORE:
    _CoreLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        ["" if letter == "\0" else letter for letter in _first],
    )


def _core_int(loader: _CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_CoreLoader.add_constructor("tag:yaml.org,2002:int", _core_int)


class Document:
    """What a file says, and on which line it says what."""

    def __init__(self, file: str, value: object, lines: dict[Place, int]) -> None:
        self.file = file
        self.value = value
        self._lines = lines

    def line(self, *place: str | int) -> int:
        """The line of what stands at this place, or of what it is part of."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)


def read(path: Path, faults: Faults) -> Document | None:
    """The document of a file; None if it cannot be read, which `faults` then says."""
    found = _documents(path, yaml.SafeLoader, faults)
    if found is None:
        return None
    if len(found) > 1:
        line = found[1].line()
        faults.add(str(path), line, "", "is not valid YAML: expected a single document")
        return None
    return found[0] if found else Document(str(path), None, {})


def read_all(path: Path, faults: Faults) -> list[Document]:
    """The documents of a file that are not empty, by the core schema and with aliases."""
    found = _documents(path, _CoreLoader, faults)
    return [document for document in found or () if document.value is not None]


def _documents(path: Path, kind: type[yaml.SafeLoader], faults: Faults) -> list[Document] | None:
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        faults.add(name, 0, "", f"cannot be read: {error.strerror or error}")
        return None
    if len(content) > BYTES_MAX:
        faults.add(name, 0, "", f"is larger than {BYTES_MAX >> 20} MiB")
        return None
    found: list[Document] = []
    try:
        text = content.decode()
        if not _is_plain(text, name, faults, aliases=kind is _CoreLoader):
            return None
        loader = kind(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                break
            if _size(node, {}) > VALUES_MAX:
                faults.add(name, 0, "", f"has more than {VALUES_MAX:,} values with its aliases")
                return None
            lines = dict(_lines(node, (), name, faults))
            found.append(Document(name, loader.construct_document(node), lines))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        faults.add(name, line, "", f"is not valid YAML: {error.problem or error.context}")
        return None
    except (yaml.YAMLError, ValueError) as error:
        faults.add(name, 0, "", f"is not valid YAML: {error}")
        return None
    return found


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node has with its aliases written out. Raises `ValueError` for a cycle."""
    at = id(node)
    if at not in known:
        known[at] = -1
        inner: list[yaml.Node] = []
        match node:
            case yaml.MappingNode():
                for pair in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                    inner += pair
            case yaml.SequenceNode():
                inner = cast("list[yaml.Node]", node.value)
            case _:
                pass
        known[at] = 1 + sum(_size(one, known) for one in inner)
    if known[at] < 0:
        raise ValueError("an alias (*) stands for something that it is a part of")
    return known[at]


def _is_plain(text: str, name: str, faults: Faults, *, aliases: bool) -> bool:
    """No aliases where they are not expected, and no endless nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) and not aliases:
            faults.add(name, _line(event), "", "has an alias (*); write it out")
            return False
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            faults.add(name, _line(event), "", f"is nested more than {DEPTH_MAX} deep")
            return False
    return True


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _lines(node: yaml.Node, place: Place, name: str, faults: Faults) -> Iterator[tuple[Place, int]]:
    yield place, node.start_mark.line + 1
    match node:
        case yaml.MappingNode():
            seen: set[str] = set()
            for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                word = str(key.value)
                if word in seen:
                    faults.add(name, key.start_mark.line + 1, word, "stands there twice")
                seen.add(word)
                yield (*place, word), key.start_mark.line + 1
                yield from (
                    (inner, line)
                    for inner, line in _lines(value, (*place, word), name, faults)
                    if len(inner) > len(place) + 1
                )
        case yaml.SequenceNode():
            for index, value in enumerate(cast("list[yaml.Node]", node.value)):
                yield from _lines(value, (*place, index), name, faults)
        case _:
            return
