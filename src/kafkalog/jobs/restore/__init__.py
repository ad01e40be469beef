"""Restore tiered logs from the remote tier: copy whole logs back, and rebuild the events from the objects."""
