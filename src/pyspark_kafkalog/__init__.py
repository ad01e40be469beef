"""Found by PySpark through its name: registers the format `kafkalog` in every session.

One of these that raises takes all automatically registered formats with it, so whatever is missing is kept quiet here
and said by `kafkalog.spark.register`.
"""

from contextlib import suppress

__all__ = ["DefaultSource"]

with suppress(Exception):
    from kafkalog.spark.source import KafkaLogSource as DefaultSource
