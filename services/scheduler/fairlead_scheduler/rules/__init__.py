"""What the scheduler decides outside of a round: leases, retries, deadlines. Pure. The rules of
a round (docs/rules.md) are in `engine`."""
