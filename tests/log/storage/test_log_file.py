"""The batches of a log file as a broker reads them."""

from __future__ import annotations

import pytest

from kafkalog.codec import Codec, Record, TimestampType
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression.specs import KAFKA_SPECS
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.encode.message import build_messages
from kafkalog.log.storage.java import IllegalArgumentError
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
