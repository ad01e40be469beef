"""Restore tiered logs from the remote tier: whole logs in a copy, and the events rebuilt from the objects."""
