"""Restore partitions that a broker has deleted and not yet removed."""
