"""`fairlead simulate`: the service's decisions over virtual time.

What is read (`inputs`, `jobs`, `swf`) becomes a `trace`; `world` feeds it to the same view, decider
and engine as the live service and lets runs end when they should; `loop` moves time; `ledger` keeps
account; `outputs` and `report` write it down. Nothing but the command reads a clock.
"""
