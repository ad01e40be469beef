"""`kafkalog dump`: what is in the files, as text, JSON lines or columns, or as Kafka's own tool or kcat prints it."""

from kafkalog.cli.dump.entry import command

__all__ = ["command"]
