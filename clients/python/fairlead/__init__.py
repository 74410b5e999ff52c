"""The Fairlead client library and command line."""
