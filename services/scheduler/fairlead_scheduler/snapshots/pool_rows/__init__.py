"""Orders of the jobs of a pool, rows that enter and leave its rounds, and waiting tasks."""
