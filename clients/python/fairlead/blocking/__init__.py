# Generated from fairlead/asynchronous/__init__.py (`make client`).
"""The blocking client, which `make client` generates from `fairlead.asynchronous`."""
