"""A snapshot, with the names that its rows stand for."""

from typing import NamedTuple

from fairlead_scheduler.engine import Snapshot
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import NodeName


class BuiltSnapshot(NamedTuple):
    """A snapshot and what its rows stand for. Its jobs are the rows of the job table.

    It refers to arrays of the builder and of the job table: it is valid until either changes.
    """

    snapshot: Snapshot
    nodes: list[NodeName]
    """[N]"""
    shapes: list[int]
    """[S] number of the shape in the view."""
    gangs: list[job_table.GangName]
    """[G]"""
    ending_rows: set[int]
    """Rows of any pool whose run is being stopped and whose capacity counts for the preemptor."""
    levels: tuple[str, ...] = ()
    """The levels of the pool's topology, widest first."""
