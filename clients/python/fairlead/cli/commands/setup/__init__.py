"""Commands for the connection of this machine to a server."""
