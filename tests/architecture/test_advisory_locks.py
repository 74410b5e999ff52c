"""Advisory locks are taken by the numbers of the registry, `fairlead_common.db.locks`."""

import re

from tests.architecture.sources import ROOT, SERVERS, sources

CALL = re.compile(r"pg_(?:try_)?advisory_\w*lock\w*\(([^;]*?)\)", re.DOTALL)
LITERAL = re.compile(r"(?<![\w$])(?:0x[0-9a-f]+|\d+)(?!\w)", re.IGNORECASE)
KEY_ZERO = re.compile(r",\s*0\s*$")


def _texts() -> dict[str, str]:
    texts = {source.path: source.text for source in sources(*SERVERS)}
    for folder in SERVERS:
        for file in sorted((ROOT / folder).rglob("*.sql")):
            texts[str(file.relative_to(ROOT))] = file.read_text()
    return texts


def _arguments(text: str) -> list[str]:
    """What is given to each advisory lock function, without the key 0 of a class of one lock."""
    return [KEY_ZERO.sub("", found[1]) for found in CALL.finditer(text)]


def test_no_statement_names_an_advisory_lock_by_a_literal() -> None:
    literal = [
        f"{path}: {given}"
        for path, text in _texts().items()
        for given in _arguments(text)
        if LITERAL.search(given) or "'" in given
    ]
    assert not literal


def test_a_literal_lock_number_is_found() -> None:
    assert LITERAL.search(_arguments("SELECT pg_try_advisory_lock(4002, 1);")[0])
    assert LITERAL.search(_arguments("SELECT pg_advisory_xact_lock(0x0FA1)")[0])
    assert not LITERAL.search(_arguments("SELECT pg_advisory_unlock($1, partition)")[0])


def test_there_are_statements_to_check() -> None:
    assert sum(len(_arguments(text)) for text in _texts().values()) >= 10
