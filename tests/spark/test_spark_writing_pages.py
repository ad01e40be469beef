"""What the pages on contents, writing and URIs show works, and does what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from kafkalog.log.disk.object_store import STORAGE_OPTIONS
from kafkalog.spark.contents_schema import SCHEMAS
from kafkalog.spark.write_options import _MEANT
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.serving.tiny_s3 import KEY, SECRET, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).resolve().parents[2] / "docs"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def run(page: str, names: dict[str, Any]) -> None:
    blocks = PYTHON.findall(text_of(page))
    assert blocks
    for number, source in enumerate(blocks):
        exec(compile(source, f"{page}, block {number}", "exec"), names)


def test_every_contents_and_every_option_is_on_its_page() -> None:
    assert [name for name in SCHEMAS if f"`{name}`" not in text_of("spark-contents.md")] == []
    assert [name for name in _MEANT if name != "path" and f"`{name}`" not in text_of("spark-writing.md")] == []
    plain = [name.removeprefix("storage.") for name in STORAGE_OPTIONS]
    assert [name for name in plain if f"`{name}`" not in text_of("spark-uris.md")] == []


def test_contents(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (broker,) = brokers("4.1.1/txn")
    for name in ("trades-41-0", "__transaction_state-0", "__cluster_metadata-0"):  # each costs a task in every query
        own_copy(broker / name, tmp_path / "data" / name)
    run("spark-contents.md", {"spark": spark, "data": str(tmp_path / "data")})
    shown = capsys.readouterr().out
    assert "|trades-41|" in shown.replace(" ", "")
    assert "compresscodec" in shown


def test_writing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "1.txt").write_text("one\ntwo\n")
    places = {name: str(tmp_path / name) for name in ("out", "copy", "checkpoint", "incoming")}
    (broker,) = brokers("4.1.1/codecs")
    topics = {each.topic or "" for each in kafkalog.open(broker).partitions}
    topic = min(name for name in topics if not name.startswith("_"))
    run("spark-writing.md", {"spark": spark, "data": str(next(broker.glob(f"{topic}-0"))), **places})
    written = kafkalog.open(places["out"])
    assert {each.topic for each in written.partitions} == {"orders", "lines"}
    orders = [each for each in written.partitions if each.topic == "orders"]
    assert sum(1 for each in orders for _ in each.records()) == 2
    assert [record.value for record in written["lines", 0].records()] == [b"one", b"two"]
    source = kafkalog.open(broker)[topic, 0]
    copied = kafkalog.open(places["copy"])[topic, 0]
    assert [(each.key, each.value, each.timestamp) for each in copied.records()] == [
        (each.key, each.value, each.timestamp) for each in source.records()
    ]


def test_uris(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(unpacked("4.1.1/codecs")) as s3:
        run("spark-uris.md", {"spark": spark, "endpoint": s3.endpoint, "access_key": KEY, "secret_key": SECRET})
    assert int(capsys.readouterr().out) > 100
