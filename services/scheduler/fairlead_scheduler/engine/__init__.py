"""The pure engine: `schedule(snapshot, settings, expired=...) -> Plan`.

Arrays in, arrays out: nothing here does I/O, reads a clock, draws random numbers or writes a log.
"""

from fairlead_scheduler.engine.round import schedule
from fairlead_scheduler.engine.snapshot import EngineSettings, Plan, Snapshot

__all__ = ["EngineSettings", "Plan", "Snapshot", "schedule"]
