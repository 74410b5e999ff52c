"""Snapshots of pools for the engine, kept from round to round. Pure.

`builder.py` puts them together; `members.py` keeps a pool's jobs, `nodes.py`, `shapes.py`,
`ranks.py` (queues), `classes.py`, `gangs.py` and `leased.py` what their names say.
docs/decisions/0011 says how all of that is kept right.
"""

from fairlead_scheduler.snapshots.builder import Builder, Built

__all__ = ["Builder", "Built"]
