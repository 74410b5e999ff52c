"""Snapshots of pools for the engine, kept from round to round. Pure.

`builder.py` puts them together; `pool_jobs.py` keeps the jobs of a pool, the other modules the
tables and columns that their names say.
docs/decisions/0011 says how all of that is kept right.
"""

from fairlead_scheduler.snapshots.builder import Builder, BuiltSnapshot

__all__ = ["Builder", "BuiltSnapshot"]
