"""Rows of the job table that changed: what enters the rounds of a pool."""

from typing import NamedTuple

from fairlead_scheduler.snapshots.row_descriptions import RowDescription, RowValues
from fairlead_scheduler.state.jobs import job_table


class ChangedRow(NamedTuple):
    """A row that changed: whether its job waits in the pool, or runs there, or neither."""

    row: int
    waits: bool
    runs: bool


class EnteringRow(NamedTuple):
    """A row that enters the pool's rounds once every pool has released what changed."""

    row: int
    now: RowValues
    rare: job_table.RareProperties | None
    """As in `EnteringRows`."""


class EnteringRows(NamedTuple):
    """Many rows that enter."""

    now: RowDescription
    rare: list[tuple[int, job_table.RareProperties]]
    """(Row, properties) of rows among these that are in a gang, avoid nodes or, in pools with
    `order: fair`, ran before."""
