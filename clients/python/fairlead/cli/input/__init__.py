"""What commands are given: files, folders, and options that several commands have."""
