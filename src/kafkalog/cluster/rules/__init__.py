"""Rules of Kafka that several packages use: precedence of settings, Java's hashes, secrets."""
