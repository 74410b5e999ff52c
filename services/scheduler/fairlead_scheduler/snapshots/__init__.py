"""Builds the snapshots of pools for the engine, and retains their columns between rounds. Pure.

`builder.py` builds a snapshot. `pool_jobs.py` has the jobs of a pool; the other modules have the
tables and columns after which they are named. docs/decisions/0011 describes how they are updated.
"""

from fairlead_scheduler.snapshots.builder import Builder, BuiltSnapshot

__all__ = ["Builder", "BuiltSnapshot"]
