"""`fairlead simulate`: the service's decisions over virtual time.

What is read (`jobs` or `swf`, `machines`, `rules`) becomes a `trace`, nodes and settings; `world`
feeds them to the same view, decider and engine as the live service, and `runs` lets runs begin and
end when they should; `loop` moves time; `ledger` keeps account; `outputs` and `report` write it
down. Nothing but the command reads a clock.
"""
