"""The event log on Kafka, for production."""
