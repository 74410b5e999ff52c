"""The process: settings, wiring, loops and metrics."""
