"""What two Fairlead services must agree on, and nothing else."""
