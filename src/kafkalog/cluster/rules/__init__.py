"""Rules of Kafka that several packages need: precedence of settings, Java's hashes, secrets."""
