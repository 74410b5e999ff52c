"""The tables, the summary and the report of a simulation."""
