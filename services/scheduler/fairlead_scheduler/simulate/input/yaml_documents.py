"""Reads YAML of limited size, with the line of each value for error messages.

Submissions are read with aliases, as `fairlead submit` reads them; nodes and settings without.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import yaml

from fairlead_common.service.yaml_loader import CoreLoader
from fairlead_scheduler.simulate.input.input_errors import InputErrors

BYTES_MAX: Final = 16 * 1_048_576
DEPTH_MAX: Final = 32

VALUES_MAX: Final = 5_000_000
"""The number of values of a file with its aliases expanded."""
Place = tuple[str | int, ...]


class Document:
    """The value of a file, and the line of each value in it."""

    def __init__(self, file: str, value: object, lines: dict[Place, int]) -> None:
        self.file = file
        self.value = value
        self._lines = lines

    def line(self, *place: str | int) -> int:
        """The line of the value at this place, or of the value that contains it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)


def read_document(path: Path, errors: InputErrors) -> Document | None:
    """The document of a file; None if it cannot be read, with the reason in `errors`."""
    found = _load_documents(path, errors, aliases=False)
    if found is None:
        return None
    if len(found) > 1:
        line = found[1].line()
        errors.add(str(path), line, "", "is not valid YAML: expected a single document")
        return None
    return found[0] if found else Document(str(path), None, {})


def read_documents(path: Path, errors: InputErrors) -> list[Document]:
    """The documents of a file that are not empty, with aliases."""
    found = _load_documents(path, errors, aliases=True)
    return [document for document in found or () if document.value is not None]


def _load_documents(path: Path, errors: InputErrors, *, aliases: bool) -> list[Document] | None:
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        errors.add(name, 0, "", f"cannot be read: {error.strerror or error}")
        return None
    if len(content) > BYTES_MAX:
        errors.add(name, 0, "", f"is larger than {BYTES_MAX >> 20} MiB")
        return None
    found: list[Document] = []
    try:
        text = content.decode()
        if not _check_structure(text, name, errors, aliases=aliases):
            return None
        loader = CoreLoader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                break
            if _count_values(node, {}) > VALUES_MAX:
                errors.add(name, 0, "", f"has more than {VALUES_MAX:,} values with its aliases")
                return None
            lines = dict(_list_lines(node, (), name, errors))
            found.append(Document(name, loader.construct_document(node), lines))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        errors.add(name, line, "", f"is not valid YAML: {error.problem or error.context}")
        return None
    except (yaml.YAMLError, ValueError) as error:
        errors.add(name, 0, "", f"is not valid YAML: {error}")
        return None
    return found


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values with aliases expanded. Raises `ValueError` for a cycle."""
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
        known[at] = 1 + sum(_count_values(one, known) for one in inner)
    if known[at] < 0:
        raise ValueError("an alias (*) refers to a value that contains it")
    return known[at]


def _check_structure(text: str, name: str, errors: InputErrors, *, aliases: bool) -> bool:
    """Check aliases, where they are not permitted, and the depth of nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=CoreLoader):
        if isinstance(event, yaml.AliasEvent) and not aliases:
            errors.add(name, _get_line(event), "", "has an alias (*); write the value instead")
            return False
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            errors.add(name, _get_line(event), "", f"is nested more than {DEPTH_MAX} levels deep")
            return False
    return True


def _get_line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _list_lines(
    node: yaml.Node, place: Place, name: str, errors: InputErrors
) -> Iterator[tuple[Place, int]]:
    yield place, node.start_mark.line + 1
    match node:
        case yaml.MappingNode():
            seen: set[str] = set()
            for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                word = str(key.value)
                if word in seen:
                    errors.add(name, key.start_mark.line + 1, word, "occurs twice")
                seen.add(word)
                yield (*place, word), key.start_mark.line + 1
                yield from (
                    (inner, line)
                    for inner, line in _list_lines(value, (*place, word), name, errors)
                    if len(inner) > len(place) + 1
                )
        case yaml.SequenceNode():
            for index, value in enumerate(cast("list[yaml.Node]", node.value)):
                yield from _list_lines(value, (*place, index), name, errors)
        case _:
            return
