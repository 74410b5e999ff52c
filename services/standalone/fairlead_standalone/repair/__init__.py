"""`fairlead repair`: has the log and all views of it agree again after one of them was lost.

`comparing.py` finds the jobs of which scheduler and lookout disagree and the events that settle
each; `repairing.py` is the recipe; `places.py` says where log and database are; `command.py` is
what a person runs.
"""
