"""Calls that configure what jobs run in and with: queues, their secrets, and cordons."""
