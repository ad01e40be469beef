"""What cannot be built is refused with the name of the field and of the structure."""

from __future__ import annotations

import pytest

from kafkalog.codec import UsageError, parse
from kafkalog.codec import build as build_whole
from kafkalog.codec.layout.record_batch import END_TRANSACTION_MARKER
from kafkalog.codec.parsing.reference import build
from testkit.recorded.broker_dirs import brokers


def test_a_missing_field_is_named() -> None:
    stored = bytes.fromhex("000000000007")  # as brokers write it: version and coordinator epoch
    values = parse(stored, "end_transaction_marker")
    assert build(END_TRANSACTION_MARKER, values, "end_transaction_marker") == stored
    del values["coordinator_epoch"]
    sentence = "^the field 'coordinator_epoch' of end_transaction_marker is missing$"
    with pytest.raises(UsageError, match=sentence):
        build(END_TRANSACTION_MARKER, values, "end_transaction_marker")
    with pytest.raises(UsageError, match=sentence):
        build_whole(values, "end_transaction_marker")


def test_each_field_of_a_stored_batch_that_is_missing() -> None:
    """Lengths, counts and checksums are computed; every other field is needed."""
    log = max(brokers("4.1.1/segments")[0].glob("*/*.log"), key=lambda path: path.stat().st_size)
    stored = log.read_bytes()
    batch = parse(stored[: 12 + int.from_bytes(stored[8:12], "big")])
    assert batch.magic == 2
    refused = set()
    for name in [name for name in batch if name != "magic" and not name.startswith("_")]:
        try:
            build_whole({key: value for key, value in batch.items() if key != name}, "record_batch")
        except UsageError as error:
            assert str(error) == f"the field {name!r} of record_batch is missing"  # noqa: PT017
            refused.add(name)
    assert {"base_offset", "attributes", "producer_id", "records"} <= refused
    assert refused.isdisjoint({"batch_length", "crc", "records_count"})
