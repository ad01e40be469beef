"""Type of the lines of `kafkalog export --json`."""

from kafkalog.tables.exporting import ExportedPartition

__all__ = ["Line"]

Line = ExportedPartition
"""One line for each partition that was chosen."""
