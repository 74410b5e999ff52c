"""Takes jobs by HTTP and writes them to the log."""
