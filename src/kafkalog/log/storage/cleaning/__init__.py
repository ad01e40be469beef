"""One pass of the log cleaner, with Kafka's classes."""
