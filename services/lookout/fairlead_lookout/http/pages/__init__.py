"""The pages, their live fragments and static files."""
