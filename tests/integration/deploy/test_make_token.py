"""The command that gives a new installation its first token."""

import os
import subprocess
import sys

from fairlead_common import db
from fairlead_common.web import auth
from fairlead_submit.store import schema


def make_token(database: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "fairlead_submit.make_token", *words],
        env={**os.environ, "FAIRLEAD_DATABASE_URL": database},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_it_prints_a_token_that_submit_knows(fresh_database: str) -> None:
    pool = await db.open_pool(fresh_database, size_max=1)
    try:
        await schema.migrate(pool)
        done = make_token(fresh_database, "me", "submitter", "viewer")
        assert done.returncode == 0, done.stderr
        row = await pool.fetchrow(
            "SELECT name, roles FROM fairlead_submit.tokens WHERE digest = $1",
            auth.digest(done.stdout.strip()),
        )
        assert (row["name"], row["roles"]) == ("me", ["submitter", "viewer"])
    finally:
        await pool.close()


def test_an_unknown_role_is_refused() -> None:
    done = make_token("postgresql://127.0.0.1:1/x", "me", "king")
    assert done.returncode == 2
    assert "roles: admin" in done.stderr
