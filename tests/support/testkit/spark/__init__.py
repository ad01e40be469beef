"""Spark in the versions and shapes that tests start."""
