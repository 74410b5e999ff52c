"""The statements of lists, put together from the pieces in `read.sql`.

A list is of whole queues or of job sets, newest or oldest first: the same text, with other names
and the comparisons turned round.
"""

from typing import Final, Literal

from fairlead_common.db import load

SQL: Final = load("fairlead_lookout.store", "sql/read.sql")


def _uncommented(piece: str) -> str:
    """A piece, without the comment above it."""
    return "\n".join(line for line in piece.splitlines() if not line.startswith("--"))


Scope = Literal["queue", "set"]
Statement = Literal["page", "sorted_page", "count_visited", "group_visited"]
_SCOPES: Final = {
    "queue": {"{scope}": "queue", "{keys}": "text"},
    "set": {"{scope}": "set_number", "{keys}": "int"},
}
_COLUMNS: Final = {
    (scope, narrow): {"{columns}": _uncommented(SQL[f"narrow_{scope}" if narrow else "whole"])}
    for scope in _SCOPES
    for narrow in (True, False)
}
_ORDERS: Final = {
    True: {"{down}": "DESC", "{behind}": "<", "{reached}": ">="},
    False: {"{down}": "ASC", "{behind}": ">", "{reached}": "<="},
}
_PIECES: Final = {
    f"{{{name}}}": _uncommented(SQL[name]) for name in ("visited", "joined", "matching")
}


def _filled(text: str, *names: dict[str, str]) -> str:
    for each in names:
        for name, value in each.items():
            text = text.replace(name, value)
    return text


_MADE: Final = {
    (name, scope, newest, narrow): _filled(
        SQL[name], _PIECES, _COLUMNS[scope, narrow], _SCOPES[scope], _ORDERS[newest]
    )
    for name in ("page", "sorted_page", "count_visited", "group_visited")
    for scope in _SCOPES
    for newest in _ORDERS
    for narrow in (True, False)
}


def statement(name: Statement, scope: Scope, *, newest: bool = True, narrow: bool = False) -> str:
    """The text of a statement of lists; `narrow`: what an index has is enough."""
    return _MADE[name, scope, newest, narrow]
