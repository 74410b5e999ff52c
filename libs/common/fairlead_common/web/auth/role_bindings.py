"""The roles of a caller, from its name and groups and the role bindings in the settings. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from fairlead_common.domain.permissions import Caller, Scope, Verb, cap_role, list_verbs
from fairlead_common.service.access_settings import RoleBinding

_ALL: Final = frozenset(str(verb) for verb in Verb)


def bind_roles(name: str, groups: Sequence[str], bindings: Iterable[RoleBinding]) -> Caller:
    """The caller with this name and groups, with every role that a binding gives it."""
    nobody = Caller(name, groups=tuple(groups))
    roles: dict[str, None] = {}
    by_queue: dict[str, dict[str, None]] = {}
    for binding in bindings:
        if not nobody.is_one_of(binding.subjects):
            continue
        if binding.queues is None:
            roles[binding.role.value] = None
        for queue in binding.queues or ():
            by_queue.setdefault(queue, {})[binding.role.value] = None
    return Caller(
        name,
        roles=tuple(roles),
        groups=nobody.groups,
        queue_roles={queue: tuple(held) for queue, held in by_queue.items()},
        is_person=True,
    )


def restrict_owner(owner: Caller, roles: Iterable[str], queues: Sequence[str] | None) -> Caller:
    """The permissions of a personal token: at most these roles and queues of its owner."""
    wanted = tuple(roles)
    return scope_caller(
        Caller(
            owner.name,
            roles=_lent(wanted, owner.roles),
            groups=owner.groups,
            queue_roles={queue: _lent(wanted, held) for queue, held in owner.queue_roles.items()},
        ),
        wanted,
        queues,
    )


def scope_caller(caller: Caller, roles: Iterable[str], queues: Sequence[str] | None) -> Caller:
    """The caller with a token of these roles, for these queues only (None: for all)."""
    verbs = list_verbs(roles)
    if queues is None:
        scope = None if verbs == _ALL else Scope(verbs)
        return Caller(caller.name, caller.roles, caller.groups, caller.queue_roles, scope)
    return Caller(
        caller.name,
        roles=(),
        groups=caller.groups,
        queue_roles={queue: tuple(sorted(caller.roles_in(queue))) for queue in queues},
        scope=Scope(verbs, frozenset(queues)),
    )


def _lent(wanted: Iterable[str], held: Sequence[str]) -> tuple[str, ...]:
    found = (cap_role(role, held) for role in wanted)
    return tuple(dict.fromkeys(role for role in found if role is not None))
