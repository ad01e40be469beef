"""`kafkalog dump`: the contents of files, as text, JSON lines or columns, or in the output format of Kafka's own tool
or of kcat.
"""

from kafkalog.cli.dump.entry import command

__all__ = ["command"]
