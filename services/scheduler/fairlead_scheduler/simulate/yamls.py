"""YAML with the line of everything in it, and with bounds: for faults that say where they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import yaml

from fairlead_scheduler.simulate.faults import Faults

BYTES_MAX: Final = 16 * 1_048_576
DEPTH_MAX: Final = 32

Place = tuple[str | int, ...]


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
    try:
        text = content.decode()
        if not _is_plain(text, name, faults):
            return None
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        lines = dict(_lines(node, (), name, faults)) if node is not None else {}
        value = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        faults.add(name, line, "", f"is no YAML: {error.problem or error.context}")
        return None
    except (yaml.YAMLError, ValueError) as error:
        faults.add(name, 0, "", f"is no YAML: {error}")
        return None
    return Document(name, value, lines)


def _is_plain(text: str, name: str, faults: Faults) -> bool:
    """No aliases, which could stand for more than any memory holds, and no endless nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
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
