"""Whether jobs of this machine are isolated from the installation, and what follows if not."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.service import settings
from fairlead_common.service.settings import SettingsError
from fairlead_executor.confinement.choice import choose
from fairlead_executor.service.settings import ExecutorSettings

ALLOWED = "--shared-unconfined permits tokens and jobs of other users nevertheless."
REFUSED = (
    "Tokens for other users are refused, and only admins can submit jobs, unless"
    " --shared-unconfined is given."
)


class Assessment(msgspec.Struct, frozen=True):
    """Whether other users can have tokens. `line`: a warning for the terminal, if any."""

    tokens_for_others: bool = True
    line: str = ""


def assess(
    backend: str, data: Path, environment: Mapping[str, str], *, shared_unconfined: bool
) -> Assessment:
    """Assess these settings of the executor. Blocks for some 0.1 s."""
    if backend != "process":
        return Assessment()
    try:
        executor = settings.load(ExecutorSettings, environment)
    except SettingsError as error:
        raise WorldError(f"settings: {error}") from error
    if "*" in executor.job_users:
        return Assessment()  # no job runs as the user of this installation
    choice = choose(executor.confinement, data)
    if choice.confines:
        return Assessment()
    return Assessment(
        shared_unconfined,
        f"Jobs are not confined ({choice.why}): they can read the secrets of this installation."
        f" {ALLOWED if shared_unconfined else REFUSED}",
    )
