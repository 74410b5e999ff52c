"""Snapshots of pools for the engine, kept from round to round. Pure.

`builder.py` puts them together; `pool_jobs.py` keeps the jobs of a pool, `node_table.py`,
`shape_table.py`, `queue_rows.py`, `class_table.py`, `gang_columns.py` and `unacknowledged.py`
(leases) what their names say.
docs/decisions/0011 says how all of that is kept right.
"""

from fairlead_scheduler.snapshots.builder import Builder, Built

__all__ = ["Builder", "Built"]
