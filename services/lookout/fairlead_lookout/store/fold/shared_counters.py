"""What a batch adds to rows that several processes share: counters by queue, usage. Pure."""

from typing import Any

from fairlead_lookout.domain.model import Changes, Known


def queue_counts(known: Known, changes: Changes) -> list[tuple[Any, ...]]:
    """(queue, class, state, how many more or fewer), for what is not 0."""
    moved: dict[tuple[str, str, str], int] = {}
    for key, counted in changes.counted.items():
        before, after = known.sets[key].counts, changes.sets[key].counts
        for class_, state in counted:
            name = (key[0], class_, state)
            change = after.get((class_, state), 0) - before.get((class_, state), 0)
            moved[name] = moved.get(name, 0) + change
    return [(*name, change) for name, change in moved.items() if change]


def usage(changes: Changes) -> list[tuple[Any, ...]]:
    """(queue, pool, hour, resource, used, lost)."""
    return [
        (*key, resource, float(each.used.get(resource, 0)), float(each.lost.get(resource, 0)))
        for key, each in changes.usage.items()
        for resource in each.used.keys() | each.lost.keys()
    ]
