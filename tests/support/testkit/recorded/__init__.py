"""What was recorded of Kafka, unpacked, and what its own clients and tools read from it."""
