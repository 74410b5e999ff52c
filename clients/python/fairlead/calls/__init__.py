"""What the methods of the client send and what the answers mean, without I/O."""
