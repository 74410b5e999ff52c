"""The fold of `fairlead.config`: the newest versions of queues, and cordons.

Submit refuses invalid configuration. If the log contains an invalid value (from an older version,
or written by hand), it is replaced by a valid one here, and `invalid_records` says what was wrong.
"""

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.domain.scheduling import quantities
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.state.cluster_state import Clusters

WEIGHT_MIN: Final = 1e-6
WEIGHT_MAX: Final = 1e9
"""With weights beyond, the shares of other queues would be lost in rounding."""


class Queues:
    """Queues by name; a queue without configuration counts with weight 1."""

    def __init__(self) -> None:
        self.by_name: dict[str, Queue] = {}
        self.invalid_records: dict[str, str] = {}
        """Key of a record -> what is wrong with it, and how it counts."""
        self._cordons: dict[str, int] = {}
        self.version = 0

    def fold(self, entries: Iterable[Entry], clusters: Clusters) -> None:
        """Fold configuration. In whatever order two records are read, the higher version counts."""
        for entry in entries:
            if entry.value is None:
                self._forget(entry.key)
                continue
            try:
                item = configuration.decode(entry.value)
            except msgspec.DecodeError as error:
                self.invalid_records[entry.key] = (
                    f"the record cannot be decoded and is ignored: {error}"
                )
                continue
            match item:
                case Queue() as queue:
                    known = self.by_name.get(queue.name)
                    if known is None or known.version < queue.version:
                        self._fold_queue(queue)
                case Cordon() as cordon:
                    key = configuration.key(cordon)
                    if self._cordons.get(key, 0) < cordon.version:
                        self._cordons[key] = cordon.version
                        clusters.cordon(cordon)

    def _forget(self, key: str) -> None:
        """Drop a queue that was deleted long ago: a scheduler that starts now does not know it
        either."""
        self.invalid_records.pop(key, None)
        name = key.partition("/")[2]
        if key == configuration.key(Queue(name=name)) and self.by_name.pop(name, None) is not None:
            self.version += 1

    def _fold_queue(self, queue: Queue) -> None:
        self.by_name[queue.name], problems = sanitize_queue(queue)
        self.version += 1
        key = configuration.key(queue)
        self.invalid_records.pop(key, None)
        if problems:
            self.invalid_records[key] = "; ".join(problems)

    def get(self, name: str) -> Queue:
        """The queue of that name."""
        return self.by_name.get(name) or Queue(name=name)

    def is_fair(self, name: str) -> bool:
        """Whether the queue of that name has `order: fair` (G9)."""
        return self.get(name).order == configuration.FAIR


def sanitize_queue(queue: Queue) -> tuple[Queue, list[str]]:
    """The queue with valid values, and one sentence per invalid value. A deleted queue counts as
    cordoned."""
    problems: list[str] = []
    weight = queue.weight
    if not math.isfinite(weight) or weight <= 0:
        problems.append(f"its weight of {weight} is not above 0, so it counts as 1")
        weight = 1.0
    limits = {
        name: {
            resource: limit
            for resource, limit in limits.items()
            if _is_limit(name, resource, limit, problems)
        }
        for name, limits in queue.limits.items()
    }
    order = queue.order
    if order not in configuration.ORDERS:
        orders = " or ".join(configuration.ORDERS)
        problems.append(
            f"its order {order!r} is not {orders}, so it counts as {configuration.FIFO}"
        )
        order = configuration.FIFO
    made = msgspec.structs.replace(
        queue,
        order=order,
        weight=min(WEIGHT_MAX, max(WEIGHT_MIN, weight)),
        limits=limits,
        cordoned=queue.cordoned or queue.deleted,
    )
    return made, problems


def _is_limit(class_name: str, resource: str, limit: float | str, problems: list[str]) -> bool:
    """Whether this is a valid fraction or quantity; if not, adds the reason to `problems`."""
    why = ""
    if isinstance(limit, str):
        try:
            quantities.parse_recorded_limit(resource, limit)
        except ValueError as error:
            why = str(error)
    elif not limit >= 0:
        why = f"{limit} is not a fraction of 0 or more"
    if why:
        problems.append(f"its limit of {resource} for class {class_name} is ignored: {why}")
    return not why
