"""Commands that list and describe what the server has."""
