"""Request bodies: decoding and validation, with every error."""
