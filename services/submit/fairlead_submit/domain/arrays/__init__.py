"""Arrays of tasks: their terms."""
