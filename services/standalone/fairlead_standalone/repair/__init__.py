"""`fairlead repair` makes the log and all views of it agree again after one of them was lost;
`fairlead story` shows what the log has about a job.

`comparison.py` finds jobs that differ between scheduler and lookout, and the events that correct
them, `group_comparison.py` groups; `comparison_steps.py` is what both need. `repair_steps.py` is
the procedure; `locations.py` finds the log and the database; `job_records.py` reads the log;
`repair_command.py` and `story_command.py` are the commands. `state_check.py` is the check of
`fairlead doctor --deep`.
"""
