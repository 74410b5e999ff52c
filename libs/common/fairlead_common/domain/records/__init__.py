"""The records of the log's topics: one module per topic, and their checked decoders."""
