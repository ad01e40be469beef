"""Consumers of log directories: streams that go on where they stopped, and follow what is written."""
