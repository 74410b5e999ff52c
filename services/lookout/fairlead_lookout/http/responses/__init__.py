"""The JSON that the API returns, by resource, and how it is made of rows and records."""
