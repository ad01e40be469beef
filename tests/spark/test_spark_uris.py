"""An object store in Spark's hands: the same rows, and secrets neither in plans nor in errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from testkit.recorded.broker_dirs import brokers, unpacked
from testkit.serving.tiny_s3 import BUCKET, KEY, SECRET, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE = "4.1.1/codecs"


def test_an_object_store_is_read_and_its_secrets_are_shown_nowhere(spark: SparkSession) -> None:
    (broker,) = brokers(CASE)
    uri = f"s3a://{BUCKET}/{broker.name}"
    with serving(unpacked(CASE)) as s3:
        frame = spark.read.format("kafkalog").options(**s3.options()).load(uri)
        assert frame.count() == spark.read.format("kafkalog").load(str(broker)).count()
        query = frame.where("partition = 0").groupBy("topic").count()
        shown = query._jdf.queryExecution().toString() + query._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended")  # type: ignore[union-attr]
        )
        assert "kafkalog" in shown
        assert SECRET not in shown
        assert KEY not in shown
        wrong = s3.options() | {"storage.access.key": "somebody-else-31"}
        with pytest.raises(AnalysisException) as raised:
            spark.read.format("kafkalog").options(**wrong).load(uri)
        message = str(raised.value)
        assert "StorageError: [Errno 13] cannot look: " in message or "cannot look: " in message
        assert SECRET not in message
        assert "somebody-else-31" not in message
