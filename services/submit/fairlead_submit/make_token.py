"""Makes an API token and prints it: the first one of an installation, or one for a program.

    python -m fairlead_submit.make_token NAME ROLE...    # roles: admin, operator, submitter, viewer

Runs where submit's settings are, for example inside its container:

    docker compose exec submit python -m fairlead_submit.make_token me admin
"""

import asyncio
import os
import sys
from collections.abc import Sequence

from fairlead_common import db
from fairlead_common.domain.permissions import ROLES
from fairlead_common.service import settings
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.store import token_store


async def make(name: str, roles: Sequence[str]) -> str:
    """The token. Raises ValueError for an unknown role."""
    pool = await db.open_pool(settings.load(SubmitSettings, os.environ).database_url, size_max=1)
    try:
        return await token_store.make_token(pool, name, roles)
    finally:
        await pool.close()


def main(arguments: Sequence[str]) -> int:
    """Print the token; 2 when called wrongly."""
    name, *roles = arguments or [""]
    if not name or not roles or not set(ROLES).issuperset(roles):
        sys.stderr.write(f"{__doc__}")
        return 2
    sys.stdout.write(f"{asyncio.run(make(name, roles))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
