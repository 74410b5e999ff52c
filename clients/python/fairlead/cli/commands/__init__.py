"""One module per command, or per group of commands that belong together."""
