"""The life cycles of `lifecycle.py` as plain text by event type: a cheap look-up in a hot path."""

from collections.abc import Mapping
from typing import Final, get_args

from fairlead_common.domain.lifecycle import (
    JOB_ENDED,
    JOB_HELD,
    JOB_STEPS,
    RUN_ENDED,
    RUN_STEPS,
    JobState,
    RunState,
)
from fairlead_common.domain.records import events

SUCCEEDED: Final = str(JobState.SUCCEEDED)

Steps = Mapping[type[events.Event], Mapping[str, str]]
"""event type -> state -> next state"""


def _steps(
    table: Mapping[tuple[JobState, str], JobState] | Mapping[tuple[RunState, str], RunState],
) -> Steps:
    made: dict[type[events.Event], dict[str, str]] = {}
    for kind in get_args(events.AnyEvent):
        tag = kind.__struct_config__.tag
        made[kind] = {str(state): str(to) for (state, name), to in table.items() if name == tag}
    return made


JOB: Final = _steps(JOB_STEPS)
RUN: Final = _steps(RUN_STEPS)
ENDED: Final = frozenset(str(state) for state in JOB_ENDED)
LIVE: Final = frozenset(str(state) for state in JobState) - ENDED
HELD: Final = frozenset(str(state) for state in JOB_HELD)
RUNS_ENDED: Final = frozenset(str(state) for state in RUN_ENDED)
QUEUED: Final = str(JobState.QUEUED)
