"""Fetching as the implementation notes have it: several fetches at once, error codes, resets, chunks that are sent."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.files.fetch_result import (
    ErrorCode,
    decode_message_set_send,
    decode_multi_message_set_send,
    encode_message_set_send,
    encode_multi_message_set_send,
)
from kafkalog.log.reading import fetch, sending
from kafkalog.types import Chunk
from testkit.recorded.broker_dirs import brokers

T0 = 1_700_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    with kafkalog.Producer(root, kafkalog.ProducerConfig(producer_type="sync"), num_partitions={"a": 2}) as producer:
        for n in range(20):
            producer.send("a", b"%d" % n * 20, partition=n % 2, timestamp=T0 + n)
        producer.send("b", b"x" * 5000)
    return root


def test_several_fetches_each_with_its_answer(root: Path) -> None:
    log_dir = kafkalog.open(root)
    asked = [(("a", 0), 3, 200), (("a", 1), 10, 200), (("a", 0), 11, 200), (("b", 0), 0, 100), (("c", 0), 0, 100),
             (("a", 1), 0, 0)]  # fmt: skip
    found = kafkalog.multifetch(log_dir, asked)
    assert [each.error_code for each in found] == [
        ErrorCode.NO_ERROR, ErrorCode.NO_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NO_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_FETCH_SIZE,
    ]  # fmt: skip
    assert [(each.topic, each.partition) for each in found] == [place for place, _, _ in asked]
    chunks = [each.chunk for each in found if each.chunk is not None]
    assert [[record.offset for record in chunk] for chunk in chunks] == [[3, 4], [], [0]]
    assert (chunks[2].max_bytes, len(chunks[2].data) > 5000) == (6400, True), "the size doubled until one fitted"
    assert [bool(each.error) for each in found] == [each.chunk is None for each in found]
    data = encode_multi_message_set_send([each.to_message_set_send() for each in found])
    error, parts = decode_multi_message_set_send(data)
    assert (error, [part.error_code for part in parts]) == (0, [0, 0, 1, 0, 3, 4])
    assert kafkalog.scan(parts[0].messages).batches == chunks[0].batches


def test_what_a_message_set_send_holds_is_the_chunk_or_older_messages(root: Path) -> None:
    chunk = kafkalog.open(root)["a", 0].read(2, 10_000)
    send = decode_message_set_send(encode_message_set_send(chunk.to_message_set_send()))
    assert (send.error_code, bytes(send.messages)) == (ErrorCode.NO_ERROR, chunk.data)
    for magic in (0, 1):
        older = kafkalog.scan(chunk.to_message_set_send(magic=magic).messages).batches
        assert {batch.magic for batch in older} == {magic}
        assert [record.value for batch in older for record in kafkalog.iter_records(batch)] == [r.value for r in chunk]


def test_an_offset_out_of_range_is_an_error_or_set_again(root: Path) -> None:
    with kafkalog.Log.open(root / "a-0") as log:
        log.delete_records_before(4)
        for reader in (log, log.partition()):
            for offset in (3, 11, -1):
                with pytest.raises(kafkalog.OffsetOutOfRangeError):
                    reader.read(offset)
                assert next(iter(reader.read(offset, reset="earliest"))).offset == 4
                latest = reader.read(offset, reset="latest")
                assert (latest.offset, latest.data, latest.next_offset) == (10, b"", 10)
            with pytest.raises(kafkalog.UsageError):
                reader.read(3, reset="none")  # type: ignore[arg-type]
    found = kafkalog.multifetch(kafkalog.open(root), [(("a", 0), 99, 500)], reset="latest")
    assert (found[0].error_code, found[0].chunk and found[0].chunk.offset) == (ErrorCode.NO_ERROR, 10)


def received(chunk: Chunk) -> bytes:
    """What arrives at the other end of a socket."""
    ours, theirs = socket.socketpair()
    parts: list[bytes] = []

    def read() -> None:
        while part := theirs.recv(1 << 16):
            parts.append(part)

    with ours, theirs:
        thread = threading.Thread(target=read)
        thread.start()
        assert chunk.write_to(ours.fileno()) == len(chunk.data)
        ours.shutdown(socket.SHUT_WR)
        thread.join()
    return b"".join(parts)


def test_a_chunk_is_sent_from_its_file_where_it_is_still_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    real = sending.send_file

    def send_file(*given: int) -> int:
        sent.append(real(*given))
        return sent[-1]

    monkeypatch.setattr(fetch, "send_file", send_file)
    chunk = kafkalog.open(root)["b", 0].read(0)
    assert received(chunk) == chunk.data
    assert sent == [len(chunk.data)]
    later = kafkalog.open(root)["a", 0].read(5, 10_000)
    assert later.origin is not None
    assert later.origin.position > 0
    assert received(later) == later.data
    assert sent == [len(chunk.data), len(later.data)]


def test_a_chunk_whose_file_has_changed_is_sent_from_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "send_file", lambda *_: pytest.fail("the file has other bytes"))
    gone, cut, other = (kafkalog.open(root)[place].read(0) for place in (("b", 0), ("a", 0), ("a", 1)))
    with kafkalog.Log.open(root / "a-0") as log:
        log.truncate_to(5)
        log.append([b"something else"] * 20)
    (root / "b-0" / "00000000000000000000.log").unlink()
    path = root / "a-1" / "00000000000000000000.log"
    copy = path.with_suffix(".copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    for chunk in (gone, cut, other):
        assert received(chunk) == chunk.data


def test_what_cannot_be_sent_is_said(root: Path) -> None:
    chunk = kafkalog.open(root)["b", 0].read(0)
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(kafkalog.StorageError, match="cannot send"):
        chunk.write_to(writing)
    os.close(writing)
    for wrong in (writing, -1, "x"):
        with pytest.raises(kafkalog.KafkaLogError):
            chunk.write_to(wrong)  # type: ignore[arg-type]
    assert kafkalog.open(root)["b", 0].read(1).write_to(writing) == 0, "nothing goes anywhere"


def test_a_file_can_be_written_to_as_well(root: Path, tmp_path: Path) -> None:
    chunk = kafkalog.open(root)["a", 1].read(0)
    with (tmp_path / "out").open("wb") as out:
        out.write(b"before")
        out.flush()
        chunk.write_to(out.fileno())
    assert (tmp_path / "out").read_bytes() == b"before" + chunk.data


def test_chunks_of_old_messages_are_sent_too() -> None:
    partition = next(each for each in kafkalog.open(brokers("0.9.0.1/codecs")[0]).partitions if each.size)
    chunk = partition.read(partition.log_start_offset, 10_000)
    assert {batch.magic for batch in chunk.batches} == {0}
    assert received(chunk) == chunk.data


def test_damage_is_an_answer_too(root: Path) -> None:
    path = root / "a-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    (found,) = kafkalog.multifetch(kafkalog.open(root), [(("a", 0), 0, 500)])
    assert (found.error_code, "checksum" in found.error) == (ErrorCode.INVALID_MESSAGE, True)


def test_what_is_no_fetch(root: Path) -> None:
    for wrong in (5, (("a", 0), 1), (("a", "0"), 1, 2), ("a", 0, 1, 2)):
        with pytest.raises(kafkalog.UsageError):
            kafkalog.multifetch(kafkalog.open(root), [wrong])  # type: ignore[list-item]
