"""Reads the view for the API and the pages."""
