"""YAML by the core schema of version 1.2, in which `on` and `12:30` are texts.

PyYAML resolves plain scalars by version 1.1; its tables are replaced here.
"""

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from yaml import SafeLoader as _LibraryLoader
else:
    _LibraryLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CORE: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)


class CoreLoader(yaml.SafeLoader):
    """Loads null, booleans, numbers, texts, lists and mappings. Its errors name the right lines."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - a table of the class that PyYAML looks for


for _tag, _pattern, _first in _CORE:
    CoreLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first
    )


def _construct_int(loader: CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


CoreLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _UniqueKeys(yaml.constructor.SafeConstructor):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, whose keys are hashable values (`Any`, as PyYAML has them)."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                    )
                seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


class _UniqueKeyLoader(_UniqueKeys, CoreLoader):
    pass


class _FastLoader(_UniqueKeys, _LibraryLoader):
    """libyaml's parser with the tables above: several times faster, but its errors name other
    lines."""

    yaml_implicit_resolvers = CoreLoader.yaml_implicit_resolvers
    yaml_constructors = CoreLoader.yaml_constructors


def load(text: str) -> object:
    """The value of a single document. Raises `yaml.YAMLError`, also for a key given twice."""
    try:
        return yaml.load(text, _FastLoader)
    except yaml.YAMLError:
        return yaml.load(text, _UniqueKeyLoader)
