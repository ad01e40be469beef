"""The batches of a log file as a broker reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog.codec import Codec, Record, TimestampType
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression.specs import KAFKA_SPECS
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.encode.message import build_messages
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.java import IllegalArgumentError, KafkaError
from kafkalog.log.storage.log_file import LogFile

RECORDS = [Record(0, 1, TimestampType.CREATE_TIME, None, b"value " * 50)]


def test_a_broker_refuses_a_compression_that_only_kafkalog_has(monkeypatch: pytest.MonkeyPatch) -> None:
    log = build_messages(RECORDS, codec=Codec.GZIP, magic=1) + build_batch(RECORDS, codec=Codec.GZIP)
    message, batch = LogFile(BufferSource(log)).batches()
    assert message.base_offset == 0
    assert batch.first_record() is not None

    monkeypatch.delitem(KAFKA_SPECS, Codec.GZIP)
    for read, position in ((lambda: message.base_offset, 0), (batch.first_record, batch.position)):
        with pytest.raises(IllegalArgumentError) as raised:
            read()
        assert str(raised.value) == "Unknown compression type id: 1"  # CompressionType.forId
        assert raised.value.position == position


@pytest.mark.parametrize("left", [5, 70, 200_000])
@pytest.mark.parametrize("magic", [1, 2])
def test_a_batch_of_which_the_file_lost_the_end_cannot_be_loaded(magic: int, left: int, tmp_path: Path) -> None:
    """As in `FileChannelRecordBatch.loadBatchWithSize`, which fails at the end of the file."""
    record = Record(0, 1, TimestampType.CREATE_TIME, None, bytes(300_000))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_messages([record], magic=1) if magic == 1 else build_batch([record]))
    with FileSource(path) as source:
        batch = next(LogFile(source).batches())
        os.truncate(path, left)
        with pytest.raises(KafkaError, match="Failed to load record batch at position 0"):
            batch.ensure_valid()
