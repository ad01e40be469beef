"""Kafka itself and what belongs to it, started, asked or called by tests."""
