"""Arrays of tasks: actions on existing ones."""
