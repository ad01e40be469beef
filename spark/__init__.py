"""The Spark data source: `spark.read.format("kafkalog").load(path)`.

PySpark finds it by itself where kafkalog is installed; `register` does it by hand.
"""

if __name__ != "kafkalog.spark":
    raise ImportError("this folder is kafkalog.spark; import that name")

from typing import TYPE_CHECKING

from kafkalog.spark.fleet import recover_many, verify_many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["recover_many", "register", "verify_many"]


def register(spark: "SparkSession") -> None:
    """Make the format `kafkalog` known to a session (needed where kafkalog was shipped as a file, not installed)."""
    from kafkalog.spark.source import KafkaLogSource

    spark.dataSource.register(KafkaLogSource)
