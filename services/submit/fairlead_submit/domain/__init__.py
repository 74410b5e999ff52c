"""What submit decides, without any I/O: what requests hold, their validation, their events."""
