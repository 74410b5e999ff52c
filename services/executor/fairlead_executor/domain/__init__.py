"""What an executor decides, and what it knows of leases and pods. Pure."""
