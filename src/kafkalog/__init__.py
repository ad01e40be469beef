"""kafkalog."""
