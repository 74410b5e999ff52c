"""The rows of the job table that take part in the rounds of a pool: their orders and totals, what
enters and leaves, and waiting tasks."""
