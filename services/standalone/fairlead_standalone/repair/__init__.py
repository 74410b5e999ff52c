"""`fairlead repair`: makes the log and all views of it agree again after one of them was lost.

`comparison.py` finds jobs that differ between scheduler and lookout, and the events that correct
them; `repair_steps.py` is the procedure; `locations.py` finds the log and the database;
`repair_command.py` is the command.
"""
