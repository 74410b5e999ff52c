"""Commands about arrays."""
