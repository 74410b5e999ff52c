"""The result of a round: the plan, and why the other jobs wait."""
