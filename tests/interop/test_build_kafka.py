"""Kafka opens what ``kafkalog build`` wrote, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kafkalog.codec.model import Codec
from kafkalog.log.writing.building import build_partitions
from kafkalog.log.writing.config import LogConfig
from testkit.judging.executions import choose_execution
from testkit.kafka.kafka_oracle import KafkaOracle

META = "#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
NOW_MS = 1_700_000_100_000


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("codec", list(Codec))
def test_kafka_opens_what_was_built(
    codec: Codec, compiled: bool, kafka: KafkaOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, 0 if compiled else 2**62)
    (tmp_path / "meta.properties").write_text(META)
    count = 5000
    headers = pa.array(
        [[{"key": "h", "value": b"%d" % n}] if n % 5 == 0 else None for n in range(count)],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    columns = pa.RecordBatch.from_pydict(
        {
            "key": [None if n % 3 == 0 else f"key {n}" for n in range(count)],
            "value": [None if n % 11 == 0 else f"value {n}" * (n % 7) for n in range(count)],
            "timestamp": pa.array(range(NOW_MS - 100_000, NOW_MS - 100_000 + count), pa.int64()),
            "headers": headers,
            "partition": [n % 2 for n in range(count)],
        }
    )
    config = LogConfig(segment_bytes=30_000)
    built = build_partitions([columns], tmp_path, topic="t", config=config, codec=codec, batch_bytes=2000)
    assert sum(each.records for each in built) == count
    for unclean in (0, 1):
        answer = kafka.check(tmp_path, {"segment.bytes": 30_000, "now_ms": NOW_MS, "force_unclean": unclean})
        assert answer["accepted"], answer
