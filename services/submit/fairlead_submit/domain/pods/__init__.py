"""Pod specs: the fields that submit reads, their requests, and their defaults."""
