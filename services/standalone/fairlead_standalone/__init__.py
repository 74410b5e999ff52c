"""Starts all of Fairlead on one machine with one command."""
