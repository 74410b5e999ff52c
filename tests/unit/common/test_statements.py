"""SQL in files: one named, commented statement per block."""

import pytest

from fairlead_common.db import Statements, load

TEXT = """-- What this file is for.

-- name: insert_job
-- A job that is new.
INSERT INTO jobs VALUES ($1);

-- name: count_jobs
SELECT count(*)
FROM jobs
"""


def test_statements_are_found_by_name_without_their_ends() -> None:
    statements = Statements(TEXT)
    assert list(statements) == ["insert_job", "count_jobs"]
    assert statements["insert_job"] == "-- A job that is new.\nINSERT INTO jobs VALUES ($1)"
    assert statements["count_jobs"] == "SELECT count(*)\nFROM jobs"


def test_an_unknown_name_is_an_error_at_first_use() -> None:
    with pytest.raises(KeyError, match="delete_job"):
        Statements(TEXT)["delete_job"]


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="one name"):
        Statements(TEXT + TEXT)


def test_an_empty_file_has_no_statements() -> None:
    assert len(Statements("-- nothing\n")) == 0


def test_a_file_inside_a_package_is_found() -> None:
    statements = load("fairlead_common.log.postgres", "sql/statements.sql")
    assert statements
    assert all(text.strip() for text in statements.values())
