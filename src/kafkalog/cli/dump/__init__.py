"""`kafkalog dump`: print the contents of files, also in the formats of Kafka's own tool and of kcat."""

from kafkalog.cli.dump.entry import command

__all__ = ["command"]
