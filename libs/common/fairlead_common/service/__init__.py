"""The process around a service: settings, event loop, signals, logging, health, disk space."""
