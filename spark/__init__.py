"""The Spark data source: `spark.read.format("kafkalog").load(path)`.

PySpark finds it automatically if kafkalog is installed. `register` registers it by hand.
"""

if __name__ != "kafkalog.spark":
    raise ImportError("this folder is kafkalog.spark; import that name")

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog.spark.fleet import recover_many, verify_many

__all__ = ["recover_many", "register", "verify_many"]


def register(spark: "SparkSession") -> None:
    """Register the format `kafkalog` in a Spark session. This is needed if kafkalog was shipped as a file and not
    installed. If PySpark has already found the format itself, version 4.0 keeps that one, and later versions replace
    it. Raises `UsageError` if packages for Spark are missing.
    """
    from kafkalog.codec.common.extras import needed

    with needed("the data source", "spark"):
        from kafkalog.spark.source import KafkaLogSource

    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(KafkaLogSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def __getattr__(name: str) -> Any:
    """Import and return `recover_many` or `verify_many`. They are imported only when they are used, because they need
    PySpark and every Python process of Spark imports this module. Raises `AttributeError` for any other name,
    `UsageError` if PySpark is missing.
    """
    if name in ("recover_many", "verify_many"):
        from kafkalog.codec.common.extras import needed

        with needed(name, "spark"):
            from kafkalog.spark import fleet

        return getattr(fleet, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
