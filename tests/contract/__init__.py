"""What all implementations of an interface do."""
