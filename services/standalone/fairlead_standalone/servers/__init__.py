"""The embedded servers, Fairlead's own services as children, and their addresses."""
