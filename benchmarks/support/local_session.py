"""Spark in this process, on two threads, reachable from nowhere."""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["local_session"]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def local_session(**settings: str) -> SparkSession:
    """A session with these settings, whose names have `__` for dots, besides those that all have; errors are logged."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in (_SETTINGS | {name.replace("__", "."): value for name, value in settings.items()}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
