"""What the scheduler decides outside of a round: pure."""
