"""The gangs when the round starts: their members and roles, and the label values for them."""
