"""`fairlead simulate`: the service's decisions over virtual time.

`input` reads the jobs, nodes and settings. `model` feeds them to the same view, decider and engine
as the live service: `simulated_runs` starts and ends runs, `simulation_loop` advances the time, and
`ledger` records the results. `output` writes them. Only the command reads a clock.
"""
