"""What requests name, found and described for callers who may view it: for API and pages."""
