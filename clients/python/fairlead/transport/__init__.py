"""HTTP: performs requests, repeats them, and reads streams."""
