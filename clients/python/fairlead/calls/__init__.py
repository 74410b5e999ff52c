"""The methods of the client without I/O: each yields requests and is given responses."""
