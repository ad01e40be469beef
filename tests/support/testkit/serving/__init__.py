"""Servers and raw clients that tests start and ask."""
