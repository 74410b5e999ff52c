"""Routes, request and response types, pages."""
