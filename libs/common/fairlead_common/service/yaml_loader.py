"""YAML by the core schema of version 1.2, in which `on` and `12:30` are texts.

PyYAML resolves plain scalars by version 1.1; its tables are replaced here.
"""

import re
from typing import Any, Final

import yaml

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
    """Loads null, booleans, numbers, texts, lists and mappings.

    Not `CSafeLoader`, which is four times faster but names other lines in its errors.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - a table of the class that PyYAML looks for


for _tag, _pattern, _first in _CORE:
    CoreLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first
    )


def _construct_int(loader: CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


CoreLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _UniqueKeyLoader(CoreLoader):
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


def load(text: str) -> object:
    """The value of a single document. Raises `yaml.YAMLError`, also for a key given twice."""
    return yaml.load(text, _UniqueKeyLoader)
