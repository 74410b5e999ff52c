"""The columns of the roles of a pool's groups. A row that is free is used again."""

from typing import Any

import numpy as np

from fairlead_scheduler.state.jobs.job_table import GangName, RoleTerms

NO_GANG = -1


class RoleRows:
    """K rows, with the columns of `Snapshot` that are named after roles."""

    def __init__(self) -> None:
        self._rows: dict[GangName, list[int]] = {}
        self._free: list[int] = []
        self.names: list[str] = []
        self.gang = np.zeros(0, np.int32)
        self.place = np.zeros(0, np.int32)
        self.min = np.zeros(0, np.int32)
        self.max = np.zeros(0, np.int32)
        self.step = np.zeros(0, np.int32)

    @property
    def present(self) -> bool:
        """Whether any group has members in the pool."""
        return bool(self._rows)

    def set(
        self, name: GangName, gang: int, roles: tuple[RoleTerms, ...], step_max: int
    ) -> dict[str, int]:
        """Set the roles of the group in row `gang`; returns the row of each role by its name."""
        rows = self._rows.get(name, [])
        while len(rows) > len(roles):
            self._release(rows.pop())
        while len(rows) < len(roles):
            if not self._free:
                self._grow()
            rows.append(self._free.pop())
        if rows:
            self._rows[name] = rows
        for place, (row, role) in enumerate(zip(rows, roles, strict=True)):
            self.names[row] = role.name
            self.gang[row], self.place[row] = gang, place
            self.min[row], self.max[row], self.step[row] = role.min, role.max, step_max
        return {role.name: row for row, role in zip(rows, roles, strict=True)}

    def drop(self, name: GangName) -> None:
        """Free the rows of a group that has no members in the pool any more."""
        for row in self._rows.pop(name, ()):
            self._release(row)

    def columns(self) -> dict[str, Any]:
        """The columns of roles, as the engine names them."""
        return {
            "role_names": tuple(self.names),
            "role_gang": self.gang,
            "role_place": self.place,
            "role_min": self.min,
            "role_max": self.max,
            "role_step": self.step,
        }

    def _release(self, row: int) -> None:
        self.names[row] = ""
        self.gang[row] = NO_GANG
        for column in (self.place, self.min, self.max, self.step):
            column[row] = 0
        self._free.append(row)

    def _grow(self) -> None:
        known = len(self.names)
        more = max(8, known)
        self.names += [""] * more
        for column in ("gang", "place", "min", "max", "step"):
            fill = NO_GANG if column == "gang" else 0
            old = getattr(self, column)
            setattr(self, column, np.concatenate([old, np.full(more, fill, np.int32)]))
        self._free = list(range(known, known + more))
