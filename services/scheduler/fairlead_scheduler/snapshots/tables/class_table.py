"""The priority classes as rows: configured classes by name, then other classes that jobs name."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.scheduling.priority_classes import Preemption, PriorityClass
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.state.queue_state import Queues

Limits = npt.NDArray[np.float64] | None

_PREEMPTION: Final = {
    Preemption.ANY: engine.Preemption.ANY,
    Preemption.URGENCY: engine.Preemption.URGENCY,
    Preemption.NONE: engine.Preemption.NONE,
}


class Classes:
    """Priority classes by row. A class that is not configured has the value 0."""

    def __init__(self, classes: Sequence[PriorityClass]) -> None:
        self.rows = sorted(classes, key=lambda item: item.name)
        self._row = {item.name: row for row, item in enumerate(self.rows)}
        self._update_columns()

    def _update_columns(self) -> None:
        self.names = tuple(item.name for item in self.rows)
        self.value = np.array([item.value for item in self.rows], np.int64)
        self.preemption = np.array([_PREEMPTION[item.preemption] for item in self.rows], np.uint8)
        self.away_value = self._list_away_values()

    def row(self, name: str) -> int:
        """The row of a class; a class without one gets the next row."""
        row = self._row.get(name)
        if row is None:
            row = self._row[name] = len(self.rows)
            self.rows.append(PriorityClass(name=name, value=0))
            self._update_columns()
        return row

    def _list_away_values(self) -> npt.NDArray[np.int64] | None:
        width = max((len(item.away_node_types) for item in self.rows), default=0)
        if width == 0:
            return None
        values = np.full((len(self.rows), width), engine.NO_AWAY, np.int64)
        for row, item in enumerate(self.rows):
            values[row, : len(item.away_node_types)] = [a.value for a in item.away_node_types]
        return values

    def limits(
        self,
        general: Mapping[str, Mapping[str, float]],
        queues: Queues,
        names: tuple[str, ...],
        resource_names: tuple[str, ...],
    ) -> tuple[Limits, Limits]:
        """L2: [Q, C, R+F] fractions and amounts, None where no limit is set.

        For each resource, the limit of the queue replaces that of `general` (`classLimits`), which
        replaces that of the class.
        """
        shape = (len(names), len(self.rows), len(resource_names))
        amounts = np.full(shape, np.inf)
        column = {resource: at for at, resource in enumerate(resource_names)}
        own = {item.name: item.limits for item in self.rows if item.limits}
        default = self._collect_fractions(own, column)
        given = self._collect_fractions(general, column)
        default = np.where(np.isfinite(given), given, default)
        fractions = np.repeat(default[None], len(names), axis=0)
        for at, name in enumerate(names):
            for class_name, limits_of in queues.get(name).limits.items():
                for resource, limit in limits_of.items():
                    if resource not in column or class_name not in self._row:
                        continue
                    place = (at, self._row[class_name], column[resource])
                    if isinstance(limit, str):
                        amounts[place] = quantities.parse_recorded_limit(resource, limit)
                        fractions[place] = np.inf
                    else:
                        fractions[place] = limit
        return (
            fractions if np.isfinite(fractions).any() else None,
            amounts if np.isfinite(amounts).any() else None,
        )

    def ceiling(
        self, by_class: Mapping[str, Mapping[str, float]], resource_names: tuple[str, ...]
    ) -> Limits:
        """L2: [C, R+F] fractions that bind every queue, None where no ceiling is set."""
        column = {resource: at for at, resource in enumerate(resource_names)}
        made = self._collect_fractions(by_class, column)
        return made if np.isfinite(made).any() else None

    def _collect_fractions(
        self, by_class: Mapping[str, Mapping[str, float]], column: Mapping[str, int]
    ) -> npt.NDArray[np.float64]:
        """[C, R+F] fractions of the pool, inf where there is no limit."""
        made = np.full((len(self.rows), len(column)), np.inf)
        for class_name, fractions in by_class.items():
            for resource, fraction in fractions.items():
                if resource in column and class_name in self._row:
                    made[self._row[class_name], column[resource]] = fraction
        return made
