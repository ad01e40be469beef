"""Merge several copies of a partition, or of log directories, and write the result."""
