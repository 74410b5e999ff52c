"""Authorization: roles, queue permissions and token scopes, decided without any I/O.

Each role includes the ones below it: `admin`, `operator`, `submitter`, `viewer`. A caller has roles
everywhere or in some queues. A queue's permissions name subjects for a verb; the verb is then
denied to all other callers, except to operators and admins. A caller with any permission for a
queue is permitted to view it, and a caller that is not permitted to view it has no permission for
it. The scope of a token can restrict all of this.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records.configuration import Permission

GROUP: Final = "group:"
"""The prefix of subjects that are groups. A user cannot have a name with this prefix."""


class Role(StrEnum):
    """The roles of callers, from the fewest rights to the most."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"


class Verb(StrEnum):
    """An action on the jobs of a queue that a caller can be permitted."""

    VIEW = "view"
    SUBMIT = "submit"
    CANCEL = "cancel"
    PREEMPT = "preempt"
    REPRIORITIZE = "reprioritize"


ROLES: Final = tuple(Role)
UNRESTRICTED_ROLES: Final = frozenset({Role.OPERATOR, Role.ADMIN})
"""Roles that a queue's permissions do not narrow."""
ROLE_VERBS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        str(role): frozenset(str(verb) for verb in Verb if role != Role.VIEWER or verb == Verb.VIEW)
        for role in Role
    }
)
NO_QUEUES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
TITLES_MAX: Final = 5
"""Roles of single queues that a message names."""


class Scope(msgspec.Struct, frozen=True):
    """The most that a token permits; `queues` None: in every queue."""

    verbs: frozenset[str]
    queues: frozenset[str] | None = None


class Caller(msgspec.Struct, frozen=True):
    """The caller of a request: its roles everywhere, its groups, its roles in some queues, its
    token's scope.

    `is_person`: an OpenID provider or a password identified it, not a token of Fairlead. `token`:
    the number of the API token or session that it used, if any; `is_session`: that is a session.
    """

    name: str
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queue_roles: Mapping[str, tuple[str, ...]] = NO_QUEUES
    scope: Scope | None = None
    is_person: bool = False
    token: int | None = None
    is_session: bool = False

    def roles_in(self, queue: str) -> frozenset[str]:
        """Its roles there."""
        return frozenset((*self.roles, *self.queue_roles.get(queue, ())))

    def titles(self) -> str:
        """Its roles, as a message names them: `viewer, submitter of physics`."""
        of_queues = [
            f"{role} of {queue}" for queue, roles in self.queue_roles.items() for role in roles
        ]
        more = len(of_queues) - TITLES_MAX
        rest = [f"{more} more"] if more > 0 else []
        held = [*sorted(self.roles), *sorted(of_queues)[:TITLES_MAX], *rest]
        return ", ".join(held) or "none"

    def is_one_of(self, subjects: Iterable[str]) -> bool:
        """Whether one of these subjects names the caller or one of its groups."""
        return any(
            subject.removeprefix(GROUP) in self.groups
            if subject.startswith(GROUP)
            else subject == self.name
            for subject in subjects
        )


class QueueScope(msgspec.Struct, frozen=True):
    """A set of queues: `only` these, or (None) all `but` those."""

    only: frozenset[str] | None = None
    but: frozenset[str] = frozenset()

    def __contains__(self, queue: str) -> bool:
        return queue not in self.but if self.only is None else queue in self.only

    @property
    def is_everything(self) -> bool:
        """Whether no queue is left out."""
        return self.only is None and not self.but

    def arguments(self) -> tuple[list[str] | None, list[str]]:
        """For a statement: `($1::text[] IS NULL OR queue = ANY ($1)) AND queue <> ALL ($2)`."""
        return None if self.only is None else sorted(self.only), sorted(self.but)


ALL_QUEUES: Final = QueueScope()


def cap_role(wanted: str, held: Iterable[str]) -> str | None:
    """The role `wanted` if the caller has one as high, else the highest that it has, if any."""
    highest = max((ROLES.index(Role(role)) for role in held), default=-1)
    return None if highest < 0 else ROLES[min(highest, ROLES.index(Role(wanted)))].value


def list_verbs(roles: Iterable[str]) -> frozenset[str]:
    """The verbs that these roles permit."""
    return _list_cached_verbs(frozenset(roles))


@lru_cache(maxsize=1_000)
def _list_cached_verbs(roles: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(ROLE_VERBS[role] for role in roles))


def allows(caller: Caller, verb: str, queue: str, permissions: Sequence[Permission]) -> bool:
    """Whether the caller is permitted to do this with a queue that has these permissions."""
    scope = caller.scope
    if scope is not None and (
        verb not in scope.verbs or (scope.queues is not None and queue not in scope.queues)
    ):
        return False
    roles = caller.roles_in(queue)
    if not roles.isdisjoint(UNRESTRICTED_ROLES):
        return True
    if not _is_permitted(caller, roles, Verb.VIEW, permissions):
        return False
    return verb == Verb.VIEW or _is_permitted(caller, roles, verb, permissions)


def _is_permitted(
    caller: Caller, roles: Iterable[str], verb: str, permissions: Sequence[Permission]
) -> bool:
    if not permissions:
        return verb in list_verbs(roles)
    concerned = [item for item in permissions if verb in item.verbs]
    named = permissions if verb == Verb.VIEW else concerned
    if any(caller.is_one_of(item.subjects) for item in named):
        return True
    return not concerned and any(verb in ROLE_VERBS[role] for role in roles)


def find_queue_scope(
    caller: Caller, verb: str, restricted: Mapping[str, Sequence[Permission]]
) -> QueueScope:
    """The queues with which the caller is permitted to do this. `restricted`: all that have
    permissions.
    """
    scope = caller.scope
    anywhere = any(verb in ROLE_VERBS[role] for role in caller.roles)
    if scope is not None and (verb not in scope.verbs or scope.queues is not None):
        candidates: Iterable[str] = scope.queues or () if verb in scope.verbs else ()
    elif anywhere:
        if not UNRESTRICTED_ROLES.isdisjoint(caller.roles):
            return ALL_QUEUES
        shut = (name for name, items in restricted.items() if not allows(caller, verb, name, items))
        return QueueScope(but=frozenset(shut))
    else:
        candidates = (*restricted, *caller.queue_roles)
    return QueueScope(
        only=frozenset(
            name for name in candidates if allows(caller, verb, name, restricted.get(name, ()))
        )
    )


def require_role(caller: Caller, *roles: str, queue: str | None = None) -> None:
    """Raises a 403 `Problem` unless the caller is admin or has one of these roles."""
    held = frozenset(caller.roles) if queue is None else caller.roles_in(queue)
    if Role.ADMIN in held or not held.isdisjoint(roles):
        return
    wanted = " or ".join(("admin", *roles))
    raise Problem(
        "forbidden",
        f"This request requires the role {wanted}. {caller.name} has the roles: {caller.titles()}.",
    )


def require_verb(caller: Caller, verb: str, queue: str, permissions: Sequence[Permission]) -> None:
    """Raises a 404 `Problem` if the caller must not view the queue, a 403 if only this verb is
    denied.
    """
    if allows(caller, verb, queue, permissions):
        return
    if not allows(caller, Verb.VIEW, queue, permissions) and (
        caller.scope is None or Verb.VIEW in caller.scope.verbs
    ):
        raise Problem("not-found", f"Queue {queue[:80]!r} does not exist.")
    raise Problem(
        "forbidden",
        f"{caller.name} is not permitted to {verb} the jobs of queue {queue!r}. An operator can"
        " permit it in the queue's `permissions`, or by a role in the settings.",
    )
