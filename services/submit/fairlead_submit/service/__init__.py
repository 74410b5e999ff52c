"""The process: settings, what routes call, loops, metrics."""
