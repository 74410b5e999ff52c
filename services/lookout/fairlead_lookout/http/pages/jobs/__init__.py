"""What the page of a job shows: its events, its runs as a picture, what would let it start."""
