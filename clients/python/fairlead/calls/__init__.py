"""The requests of the client's methods and the decoding of responses, without I/O."""
