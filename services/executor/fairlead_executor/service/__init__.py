"""The process: settings, wiring, loops, metrics."""
