"""Worked cases of the scheduling rules: `python -m fairlead_scheduler.cases [--json] FILE...`.

A case is turned into events and fed to the same pure `apply`, cluster fold and snapshot builder as
the service, and the same `schedule` decides; there is no log and no database. The form of a case
is described in `tests/cases/README.md`.
"""
