"""SQL is run where the tables are: in the `store/` of a service, and in the folders of libs/common
that are stores. Everything else calls their functions, which return typed values."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.architecture.sources import SERVERS, Source, sources

STORES: Final = ("/store/", "/fairlead_common/db/", "/fairlead_common/log/postgres/")
CALLS: Final = frozenset(
    {
        "copy_from_query",
        "copy_records_to_table",
        "copy_to_table",
        "execute",
        "executemany",
        "fetch",
        "fetchrow",
        "fetchval",
    }
)
"""What asyncpg runs a statement with."""

_SQL: Final = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|TRUNCATE|CREATE|ALTER|DROP|COPY|LOCK)\s+[\w($]"
)


def find_sql(source: Source) -> Iterator[str]:
    """The SQL texts of a module, and its calls that run a statement."""
    texts = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and id(node) not in texts:
            if isinstance(node.value, str) and _SQL.search(node.value):
                yield f"line {node.lineno}: {node.value}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CALLS
            and node.args
        ):
            yield f"line {node.lineno}: {node.func.attr}"


def is_store(path: str) -> bool:
    return any(folder in path for folder in STORES)


def test_sql_is_run_in_stores_only() -> None:
    found = {
        source.path: list(find_sql(source))
        for source in sources(*SERVERS)
        if not is_store(source.path)
    }
    assert {path: uses for path, uses in found.items() if uses} == {}
