"""Whether jobs, groups and changes of groups could ever run on the existing nodes. Pure."""
