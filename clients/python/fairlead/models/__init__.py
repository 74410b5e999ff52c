"""What the API sends and receives, as frozen structs."""
