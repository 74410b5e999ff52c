"""The actions that a page offers: those that the caller is permitted, and of them those that the
state of the job permits. The server decides again when an action is requested."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_common.domain.permissions import Caller, Verb
from fairlead_lookout.domain.transitions import ENDED, LIVE, WITH_RUN
from fairlead_lookout.http.visibility import Visibility

ACTIONS: Final[Mapping[str, Verb]] = {
    "cancel": Verb.CANCEL,
    "preempt": Verb.PREEMPT,
    "reprioritize": Verb.REPRIORITIZE,
    "resubmit": Verb.SUBMIT,
}
"""The actions in the order of their buttons, and what each requires of a caller."""


async def list_permitted(visibility: Visibility, caller: Caller, queue: str | None) -> list[str]:
    """The actions that the caller is permitted with the jobs of a queue, or (None) of any."""
    permitted = []
    for action, verb in ACTIONS.items():
        scope = await visibility.find_scope(caller, verb)
        is_permitted = scope.only != frozenset() if queue is None else queue in scope
        permitted += [action] if is_permitted else []
    return permitted


def list_possible(
    states: Iterable[str], *, stopping: str | None = None, waits_in_array: bool = False
) -> list[str]:
    """The actions on a job in one of these states. `stopping`: what is being done to its run;
    `waits_in_array`: it is a task that is not a job yet."""
    live, with_run = not LIVE.isdisjoint(states), not WITH_RUN.isdisjoint(states)
    possible = {
        "cancel": live and stopping != "cancel",
        "preempt": with_run and stopping is None,
        "reprioritize": live and stopping != "cancel" and not waits_in_array,
        "resubmit": not waits_in_array,
    }
    return [action for action in ACTIONS if possible[action]]


def list_possible_of_array(states: Mapping[str, int]) -> list[str]:
    """The actions on the tasks of an array. `states`: tasks by state."""
    is_live = any(tasks for state, tasks in states.items() if state not in ENDED)
    return ["cancel", "reprioritize"] if is_live else []
