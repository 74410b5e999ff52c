"""The scheduler's view of jobs: columns in memory, folded from the log, saved in Postgres.

`columns.py` holds the rows, `apply.py` folds events into them (pure), `journal.py` says which rows
changed of late, `checkpoint.py` saves and loads them with the log positions.
"""
