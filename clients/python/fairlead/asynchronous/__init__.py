"""The asynchronous client, from which `make client` generates `fairlead.blocking`."""
