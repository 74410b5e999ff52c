"""Reads YAML by the core schema of YAML 1.2, with aliases and merge keys (`<<: *name`).

By the older rules of PyYAML `on:` is the key `true`, `12:30` is 750 and a time is not text. Writes
YAML in which unprintable characters can be escaped.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from yaml import SafeLoader as Base
else:
    Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CORE: Final = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
)
WIDTH: Final = 100
"""Lines that are written are about as long as this, at most."""
VALUES_MAX: Final = 2_000_000
"""Most values of a document, with what its aliases repeat: aliases of aliases grow without end."""


class Unreadable(ValueError):
    """The text is not valid YAML with JSON values."""


class _Loader(Base):
    """As `yaml.safe_load`, with the booleans, numbers and nulls of YAML 1.2. A repeated key is an
    error, as it is on the server.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - a table of the class that PyYAML looks for

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, with keys of any type: `_find_non_string_keys` checks them."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    reason = f"the key {key.value!r} occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, reason, key.start_mark)
                seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


for _tag, _pattern, _first in _CORE:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        ["" if letter == "\0" else letter for letter in _first],
    )


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    bases = {"0o": 8, "0x": 16}
    return int(text, bases.get(text[:2], 10))


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def read_documents(text: bytes) -> list[object]:
    """The documents that are not empty. Raises `Unreadable`."""
    try:
        found = [one for one in yaml.load_all(text, _Loader) if one is not None]
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(_describe_error(error)) from error
    for number, document in enumerate(found, 1):
        if _count_values(document, {}, set()) > VALUES_MAX:
            reason = f"its aliases make more than {VALUES_MAX} values, or refer to themselves"
            raise Unreadable(f"document {number}: {reason}")
        for place in _find_non_string_keys("", document):
            raise Unreadable(f"document {number}: {place} is not text; put it in quotes")
    return found


def _count_values(value: object, known: dict[int, int], above: set[int]) -> int:
    """The number of values of a document; each object is counted once and then remembered in
    `known`. `above`: the objects that contain this one.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) in above:
        return VALUES_MAX + 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        above.add(id(value))
        known[id(value)] = 1 + sum(_count_values(each, known, above) for each in inner)
        above.discard(id(value))
    return known[id(value)]


def _describe_error(error: Exception) -> str:
    """What is wrong, and at which line of the file."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    mark, reason = error.problem_mark, (error.context, error.problem)
    return f"line {mark.line + 1}, column {mark.column + 1}: {', '.join(filter(None, reason))}"


def _find_non_string_keys(place: str, value: object) -> Iterator[str]:
    """Keys that JSON does not permit."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"the key {key!r}{f' of {place}' if place else ''}"
            else:
                yield from _find_non_string_keys(f"{place}.{key}" if place else key, inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _find_non_string_keys(f"{place}[{index}]", inner)


class _Dumper(yaml.SafeDumper):
    """Writes texts with unprintable characters in double quotes."""


def write_document(value: object) -> str:
    """JSON values as a document, without a line break at its end. Unprintable characters are only
    in double quotes, where a reader understands their escapes."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text.rstrip("\n")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_printable = text.replace("\n", "").isprintable()
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if is_printable else '"'
    )


_Dumper.add_representer(str, _represent_text)
