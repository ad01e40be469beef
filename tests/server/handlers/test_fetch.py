"""What a fetch gives, request by request: sessions, limits, bounds, epochs, growth, damage, the past."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.plain.scanner import scan
from kafkalog.log.reading import transactions
from kafkalog.server.broker import ServerOptions
from kafkalog.server.catalog import Catalog
from kafkalog.server.error_codes import Code
from kafkalog.server.served_log import ServedLog
from testkit.made import damage
from testkit.recorded.broker_dirs import brokers, expected_offsets, own_copy
from testkit.recorded.fixture_data import broker_case
from testkit.serving.raw_client import RawClient, fetching
from testkit.serving.serving import bootstrap, by_librdkafka, serving

TXN = brokers("4.3.0/txn")[0]
QUICK = ServerOptions(refresh_seconds=0.05)
T0 = 1_700_000_000_000


def written(directory: Path, *, topic: str = "orders", records: int = 50, **config: Any) -> kafkalog.Log:
    """A log with one record in each batch, a second apart."""
    directory.mkdir(exist_ok=True)
    log = kafkalog.Log.open(directory / f"{topic}-0", kafkalog.LogConfig(**config))
    more(log, records)
    return log


def more(log: kafkalog.Log, records: int) -> None:
    for _ in range(records):
        number = log.end_offset
        log.append([kafkalog.NewRecord(value=b"v%d" % number, key=b"k", timestamp=T0 + 1000 * number)])
    log.flush()


@contextmanager
def written_and_served(place: Path) -> Iterator[tuple[kafkalog.Log, RawClient]]:
    """A log that may grow, and a client of a server that looks often."""
    with (
        written(place / "data") as log,
        serving(place / "data", options=QUICK) as server,
        RawClient(server.address) as client,
    ):
        yield log, client


def earliest(client: RawClient) -> int:
    """The log start offset, as clients are told it."""
    partition = {"partition_index": 0, "timestamp": -2}
    answer = client.ask("ListOffsets", 5, topics=[{"name": "orders", "partitions": [partition]}])
    return int(answer["topics"][0]["partitions"][0]["offset"])


def one(answer: dict[str, Any]) -> dict[str, Any]:
    """The only partition of an answer."""
    ((partition,),) = [each["partitions"] for each in answer["responses"]]
    found: dict[str, Any] = partition
    return found


def offsets(partition: dict[str, Any]) -> list[int]:
    """Base offsets of the whole batches in an answer; they are all there is."""
    result = scan(partition["records"])
    assert result.valid_bytes == len(partition["records"])
    headers: list[Any] = [batch.header for batch in result.batches]
    return [header.base_offset for header in headers]


def open_below(place: Path) -> list[str]:
    """Names of the files below a place that this process holds open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            path = Path(os.readlink(f"/proc/self/fd/{name}"))
            if path.is_relative_to(place):
                found.append(path.name)
    return found


def test_a_stopped_server_holds_no_file_open(tmp_path: Path) -> None:
    """A process may start many servers, one after another."""
    with written_and_served(tmp_path) as (log, client):
        assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 30}))))
        held = open_below(tmp_path)
    log.close()
    assert any(name.endswith(".log") for name in held)
    assert open_below(tmp_path) == []


def test_whole_batches_up_to_a_size(tmp_path: Path) -> None:
    with written(tmp_path / "data") as log:
        size = log.read(0, 1).batches[0].size
    with serving(tmp_path / "data") as server, RawClient(server.address) as client:
        for most in (1, size, size + 1, 3 * size, 3 * size + size // 2):
            answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 7}, most=most)))
            assert offsets(answer) == list(range(7, 7 + max(1, most // size)))
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 7}, max_bytes=2 * size)))
        assert offsets(answer) == [7, 8]
        assert (answer["high_watermark"], answer["last_stable_offset"], answer["log_start_offset"]) == (50, 50, 0)


def test_every_offset_of_every_log_begins_where_it_should() -> None:
    ends = expected_offsets(broker_case("4.3.0", "txn"), "read_uncommitted")
    with serving(TXN) as server, RawClient(server.address) as client:
        for (topic, number), (start, end) in ends.items():
            partition = kafkalog.open_partition(TXN / f"{topic}-{number}")
            headers: list[Any] = [batch.header for batch in partition.batches()]
            batches = [(header.base_offset, header.last_offset) for header in headers]
            for offset in range(start, end):
                body = fetching(topic, {number: offset}, most=3000)
                found = offsets(one(client.ask("Fetch", 11, **body)))
                first = next(base for base, last in batches if last >= offset)
                assert found == [base for base, _ in batches if base >= first][: len(found)]
                assert found


def test_bounds_and_unknown_partitions() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        for topic, number, offset, code in (
            ("orders-20", 0, 110, Code.OFFSET_OUT_OF_RANGE), ("orders-20", 0, -1, Code.OFFSET_OUT_OF_RANGE),
            ("orders-20", 0, 109, Code.NONE), ("orders-20", 9, 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
            ("nothing", 0, 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ):  # fmt: skip
            answer = one(client.ask("Fetch", 11, **fetching(topic, {number: offset})))
            assert (answer["error_code"], answer["records"]) == (code, b"")


def test_topic_ids() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        topics = client.ask("Metadata", 12, topics=[{"name": "orders-20"}])["topics"]
        topic_id = topics[0]["topic_id"]
        answer = one(client.ask("Fetch", 17, **fetching(topic_id, {0: 0}, version=17)))
        assert offsets(answer)
        answer = one(client.ask("Fetch", 17, **fetching("A" * 22, {0: 0}, version=17)))
        assert answer["error_code"] == Code.UNKNOWN_TOPIC_ID


def test_a_session_says_only_what_is_new(tmp_path: Path) -> None:
    with written_and_served(tmp_path) as (log, client):
        first = client.ask("Fetch", 11, **fetching("orders", {0: 0}, session_epoch=0))
        session = first["session_id"]
        assert session != 0
        again = fetching("orders", {0: 50}, session_id=session, session_epoch=1)
        assert client.ask("Fetch", 11, **again)["responses"] == []
        nothing = fetching("orders", {}, session_id=session, session_epoch=2)
        assert client.ask("Fetch", 11, **nothing)["responses"] == []
        more(log, 2)
        waiting = fetching("orders", {}, session_id=session, session_epoch=3, max_wait_ms=20_000)
        assert offsets(one(client.ask("Fetch", 11, **waiting))) == [50, 51]
        wrong = client.ask("Fetch", 11, **fetching("orders", {}, session_id=session, session_epoch=9))
        assert wrong["error_code"] == Code.INVALID_FETCH_SESSION_EPOCH
        other = client.ask("Fetch", 11, **fetching("orders", {}, session_id=session ^ 1, session_epoch=4))
        assert other["error_code"] == Code.FETCH_SESSION_ID_NOT_FOUND
        forgotten = fetching("orders", {}, session_id=session, session_epoch=4)
        forgotten["forgotten_topics_data"] = [{"topic": "orders", "partitions": [0]}]
        assert client.ask("Fetch", 11, **forgotten)["responses"] == []


def test_a_wait_ends_when_something_is_written_or_the_time_is_over(tmp_path: Path) -> None:
    with written_and_served(tmp_path) as (log, client):
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 50}, max_wait_ms=30)))
        assert answer["records"] == b""
        body = fetching("orders", {0: 50}, max_wait_ms=20_000)
        with RawClient(client.address, timeout=0.3) as other, pytest.raises(TimeoutError):
            other.ask("Fetch", 11, **body)
        more(log, 1)
        assert offsets(one(client.ask("Fetch", 11, **body))) == [50]


def test_what_is_written_between_a_listing_and_a_look_is_there_with_the_next_one(tmp_path: Path) -> None:
    """The end is known then before the bytes are listed; that there was nothing is not kept."""
    with written(tmp_path / "data", records=3) as log:
        catalog = Catalog([tmp_path / "data"])
        more(log, 1)
        served = catalog.topics["orders"].partitions[0]
        assert served.bounds().end == 4
        assert served.read(3, 1000, 4, at_least_one=True).range is None
        catalog.refresh()
        assert served.read(3, 1000, 4, at_least_one=True).range is not None


def test_what_was_found_of_transactions_is_looked_for_again_where_files_were_replaced(tmp_path: Path) -> None:
    """A restored file has as many bytes as the damaged one had."""
    root = own_copy(TXN, tmp_path / "data")
    sound = Catalog([root]).topics["orders-20"].partitions[0].find_committed()
    path = max((root / "orders-20-0").glob("*.log"), key=lambda each: each.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(data[:61] + bytes(len(data) - 61 - 200) + data[-200:])
    catalog = Catalog([root])
    log = catalog.topics["orders-20"].partitions[0]
    assert log.find_committed() != sound
    path.write_bytes(data)
    catalog.refresh()
    assert log.find_committed() == sound


def test_new_segments_and_deleted_ones(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with written(directory, segment_bytes=400) as log, serving(directory, options=QUICK) as server:
        more(log, 50)
        with RawClient(server.address) as client:
            until = time.monotonic() + 20
            while True:
                answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 99}, max_wait_ms=50)))
                if answer["error_code"] == Code.NONE and answer["records"]:
                    break
                assert time.monotonic() < until
            assert offsets(answer) == [99]
            for path in sorted((directory / "orders-0").glob("*.log"))[:3]:
                path.unlink()
            start = int(min((directory / "orders-0").glob("*.log")).stem)
            while earliest(client) != start:
                assert time.monotonic() < until
                time.sleep(0.05)
            below = one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))
            assert below["error_code"] == Code.OFFSET_OUT_OF_RANGE


def test_a_topic_that_comes_and_goes(tmp_path: Path) -> None:
    written(tmp_path / "data").close()
    with serving(tmp_path / "data", options=QUICK) as server, RawClient(server.address) as client:
        written(tmp_path / "data", topic="later").close()
        for names in (["later", "orders"], ["orders"]):
            until = time.monotonic() + 20
            while sorted(each["name"] for each in client.ask("Metadata", 12, topics=None)["topics"]) != names:
                assert time.monotonic() < until
                time.sleep(0.05)
            for path in (tmp_path / "data" / "later-0").glob("*"):
                path.unlink()
            if (tmp_path / "data" / "later-0").is_dir():
                (tmp_path / "data" / "later-0").rmdir()


def damaged(directory: Path, batch: int) -> Path:
    """The log with one bit of a record's value flipped."""
    written(directory).close()
    log = directory / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    place = scan(bytes(data)).batches[batch]
    data[place.position + place.size - 3] ^= 1
    log.write_bytes(data)
    return log


def test_damage_is_served_as_it_is(tmp_path: Path) -> None:
    log = damaged(tmp_path / "data", 20)
    with serving(tmp_path / "data") as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))
        assert answer["records"] == log.read_bytes()
        assert answer["high_watermark"] == 50


def test_damage_is_left_out_if_that_is_wanted(tmp_path: Path) -> None:
    log = damaged(tmp_path / "data", 20)
    told: list[str] = []
    with serving(tmp_path / "data", on_damage=told.append) as server:
        found = by_librdkafka(bootstrap(server), {("orders", 0): (0, 50)}, "read_uncommitted")
        with RawClient(server.address) as client:
            assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))) == list(range(20))
            assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 20})))) == list(range(21, 50))
    assert sorted(offset for _, _, offset in found) == [*range(20), *range(21, 50)]
    begin = scan(log.read_bytes()).valid_bytes
    size = scan(log.read_bytes()).batches[-1].size
    assert told == [f"{log}: bytes {begin} to {begin + size} are a damaged batch of the offsets 20 to 20, and left out"]


@pytest.mark.parametrize("longer", [1, 5, 100, -1, 2**31 - 500])
@pytest.mark.parametrize("start", [20, 21])
def test_a_damaged_length_hides_no_batch_behind_it(start: int, longer: int, tmp_path: Path) -> None:
    written(tmp_path / "data").close()
    log = tmp_path / "data" / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    begin = scan(bytes(data)).batches[20].position
    length = int.from_bytes(data[begin + 8 : begin + 12], "big") + longer
    data[begin + 8 : begin + 12] = length.to_bytes(4, "big")
    log.write_bytes(data)
    for index in log.parent.glob("*index"):
        index.unlink()
    with serving(tmp_path / "data", on_damage=lambda _: None) as server, RawClient(server.address) as client:
        for _ in range(2):
            assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: start})))) == list(range(21, 50))


def test_a_batch_of_an_unknown_magic_is_left_out_also_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    written(tmp_path / "data").close()
    log = tmp_path / "data" / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    batches = scan(bytes(data)).batches
    data[batches[20].position + 16] = 18
    log.write_bytes(data)
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 45, batches[45].position))
    with serving(tmp_path / "data", on_damage=lambda _: None) as server, RawClient(server.address) as client:
        assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))) == list(range(20))
        assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 20})))) == list(range(21, 50))


def test_an_earlier_segment_that_ends_within_a_batch_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    batches = [damage.batch(offset, [damage.record(0)]) for offset in range(4)]
    first = directory / f"{0:020}.log"
    first.write_bytes(batches[0] + batches[1][:-3])
    (directory / f"{2:020}.log").write_bytes(batches[2] + batches[3])
    told: list[str] = []
    with serving(tmp_path / "data", complain=told.append) as server, RawClient(server.address) as client:
        for _ in range(2):
            assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 1})))) == [2, 3]
    begin, end = len(batches[0]), first.stat().st_size
    (line,) = told
    assert line.startswith(f"{first}: bytes {begin} to {end} are no whole batch, and not served")


@pytest.mark.parametrize("kind", ["offset", "magic"])
def test_a_last_batch_that_no_consumer_reads_past_is_told(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    last = bytearray(damage.batch(2**31 + 5 if kind == "offset" else 1, [damage.record(0)]))
    if kind == "magic":
        last[16] = 18
    whole = damage.batch(0, [damage.record(0)])
    (directory / f"{0:020}.log").write_bytes(whole + last)
    told: list[str] = []
    with serving(tmp_path / "data", complain=told.append) as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))
        assert (answer["high_watermark"], offsets(answer)) == (1, [0])
    (line,) = told
    assert f"bytes {len(whole)} to {len(whole) + len(last)}, with which the log ends" in line


def test_bytes_that_are_no_batch(tmp_path: Path) -> None:
    log = damaged(tmp_path / "data", 20)
    data = bytearray(log.read_bytes())
    place = scan(bytes(data)).valid_bytes
    data[place : place + 30] = bytes(30)
    log.write_bytes(data)
    told: list[str] = []
    with serving(tmp_path / "data") as server, RawClient(server.address) as client:
        assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))) == list(range(20))
        assert one(client.ask("Fetch", 11, **fetching("orders", {0: 20})))["error_code"] == Code.CORRUPT_MESSAGE
    with serving(tmp_path / "data", on_damage=told.append) as server, RawClient(server.address) as client:
        assert offsets(one(client.ask("Fetch", 11, **fetching("orders", {0: 20})))) == list(range(21, 50))
    assert len(told) == 1


def test_a_client_that_waits_for_an_open_transaction_is_told_of_it_though_the_log_never_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody may still write, nothing is said; a minute later the transactions are known already."""
    data = damage.Header(attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0)
    batches = [damage.batch(0, [damage.record(0)]), damage.batch(1, [damage.record(0)], data)]
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    told: list[str] = []
    body = fetching("orders", {0: 1}, max_wait_ms=0) | {"isolation_level": 1}
    latest = {"partition_index": 0, "timestamp": -1}
    with serving(tmp_path / "data", complain=told.append) as server, RawClient(server.address) as client:

        def waits() -> None:
            assert offsets(one(client.ask("Fetch", 11, **body))) == []
            topics = [{"name": "orders", "partitions": [latest]}]
            answer = client.ask("ListOffsets", 5, isolation_level=1, topics=topics)
            assert answer["topics"][0]["partitions"][0]["offset"] == 1

        waits()
        assert told == []
        monkeypatch.setattr(transactions, "_PATIENCE_NS", 0)
        assert offsets(one(client.ask("Fetch", 11, **body))) == []
        (message,) = told
        assert "read_committed ends at offset 1, where a transaction of producer 7 is open" in message
        waits()
        assert told == [message]


def test_a_transaction_that_is_undecided_because_of_damage_is_told_or_left_out(tmp_path: Path) -> None:
    """As a batch that cannot be read, not as one that is open: nobody will end it."""
    data = damage.Header(attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0)
    batches = [damage.batch(0, [damage.record(0)])]
    batches += [damage.batch(number, [damage.record(0)], data) for number in (1, 2)]
    marker = damage.marker(3, 7, 0, commit=True)
    batches += [marker[:-1] + bytes([marker[-1] ^ 1])]
    batches += [damage.batch(4, [damage.record(0)]), damage.batch(5, [damage.record(0)], data)]
    batches += [damage.marker(6, 7, 0, commit=True), damage.batch(7, [damage.record(0)])]
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    told: list[str] = []
    where = "the transaction of producer 7 from offset 1 on was committed cannot be told"

    def asked(client: RawClient, offset: int, level: int = 1) -> tuple[int, list[int]]:
        body = fetching("orders", {0: offset}) | {"isolation_level": level, "max_wait_ms": 10_000}
        answer = one(client.ask("Fetch", 11, **body))
        return answer["error_code"], [] if answer["error_code"] else offsets(answer)

    with serving(tmp_path / "data", complain=told.append) as server, RawClient(server.address) as client:
        assert asked(client, 0) == (Code.NONE, [0])
        for _ in range(2):
            assert asked(client, 1) == (Code.CORRUPT_MESSAGE, [])
        assert asked(client, 4) == (Code.CORRUPT_MESSAGE, [])
        found = one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))
        assert (found["error_code"], found["records"]) == (Code.NONE, b"".join(batches))
    assert len(told) == 1
    assert where in told[0]
    told.clear()
    with serving(tmp_path / "data", complain=told.append, on_damage=lambda _: None) as server:
        with RawClient(server.address) as client:
            assert asked(client, 0) == (Code.NONE, [0])
            assert asked(client, 1) == (Code.NONE, [4, 5, 6, 7])
            assert asked(client, 1, level=0) == (Code.NONE, [1, 2])
        given = by_librdkafka(bootstrap(server), {("orders", 0): (0, 8)}, "read_committed")
    assert [offset for _, _, offset in sorted(given)] == [0, 4, 5, 7]
    assert len(told) == 1
    assert where in told[0]


@pytest.mark.parametrize("length", [0, 1 << 29])
def test_damage_at_the_end_is_not_served_and_told(tmp_path: Path, length: int) -> None:
    log = damaged(tmp_path / "data", 49)
    begin, size = scan(log.read_bytes()).valid_bytes, len(log.read_bytes())
    if length:  # as much as nobody has written
        data = bytearray(log.read_bytes())
        data[begin + 8 : begin + 12] = length.to_bytes(4, "big")
        log.write_bytes(data)
    os.utime(log, (T0 / 1000, T0 / 1000))
    told: list[str] = []
    with serving(tmp_path / "data", complain=told.append) as server, RawClient(server.address) as client:
        for _ in range(2):
            answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))
            assert (answer["high_watermark"], offsets(answer)) == (49, list(range(49)))
    what = f"{log}: bytes {begin} to {size}, with which the log ends, are damaged and not served"
    assert told == [f"{what}; clients are told that it ends at offset 49"]


def test_a_log_goes_on_behind_a_length_that_reaches_beyond_it(tmp_path: Path) -> None:
    log = damaged(tmp_path / "data", 47)
    data, begin = bytearray(log.read_bytes()), scan(log.read_bytes()).valid_bytes
    data[begin + 8 : begin + 12] = (1 << 29).to_bytes(4, "big")
    log.write_bytes(data)
    os.utime(log, (T0 / 1000, T0 / 1000))
    for index in log.parent.glob("*index"):
        index.unlink()
    with serving(tmp_path / "data", on_damage=lambda _: None) as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 47})))
        assert (answer["high_watermark"], offsets(answer)) == (50, [48, 49])


@pytest.mark.parametrize("batch", [0, 20])
def test_times_are_found_behind_damage(tmp_path: Path, batch: int) -> None:
    log = damaged(tmp_path / "data", batch)
    for index in log.parent.glob("*index"):
        index.unlink()
    with serving(tmp_path / "data") as server, RawClient(server.address) as client:
        for when, offset in ((T0 + 30_000, 30), (T0 + 1000 * batch, batch + 1), (-3, 49), (T0 + 90_000, -1)):
            partition = {"partition_index": 0, "timestamp": when}
            answer = client.ask("ListOffsets", 7, topics=[{"name": "orders", "partitions": [partition]}])
            assert answer["topics"][0]["partitions"][0]["offset"] == offset
    with serving(tmp_path / "data", as_of=T0 + 30_500) as server, RawClient(server.address) as client:
        assert one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))["high_watermark"] == 31


def test_a_batch_that_says_it_is_longer_than_the_log() -> None:
    directory, topic, number = brokers("0.10.2.2/torn")[0], "sessions-20", 11
    told: list[str] = []
    with serving(directory) as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching(topic, {number: 43})))
        assert answer["error_code"] == Code.CORRUPT_MESSAGE
    with serving(directory, on_damage=told.append) as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching(topic, {number: 43})))
        assert scan(answer["records"]).batches[-1].last_offset == 47
    assert len(told) == 1


def test_a_wrong_index_leads_nowhere_else(tmp_path: Path) -> None:
    source = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    plain = own_copy(source, tmp_path / "plain")
    for path in source.rglob("*.index"):
        data = path.read_bytes()
        path.write_bytes(bytes(each ^ 0x15 for each in data))
    for path in plain.rglob("*.index"):
        path.unlink()
    answers = []
    for directory in (brokers("4.3.0/segments")[0], source, plain):
        with serving(directory) as server, RawClient(server.address) as client:
            found = []
            for topic in client.ask("Metadata", 12, topics=None)["topics"]:
                for offset in range(0, 300, 7):
                    answer = one(client.ask("Fetch", 11, **fetching(topic["name"], {0: offset}, most=2000)))
                    found.append((topic["name"], offset, answer["error_code"], offsets(answer)[:1]))
            answers.append(found)
    assert answers[0] == answers[1] == answers[2]


def test_the_past(tmp_path: Path) -> None:
    written(tmp_path / "data").close()
    with serving(tmp_path / "data", as_of=T0 + 20_500) as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))
        assert offsets(answer) == list(range(21))
        assert answer["high_watermark"] == 21
    with serving(tmp_path / "data", as_of=T0 - 1) as server, RawClient(server.address) as client:
        assert one(client.ask("Fetch", 11, **fetching("orders", {0: 0})))["high_watermark"] == 0


def test_leader_epochs() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        topic = client.ask("Metadata", 12, topics=[{"name": "orders-20"}])["topics"][0]
        epoch = topic["partitions"][0]["leader_epoch"]
        for current, code in ((epoch, 0), (epoch + 1, Code.UNKNOWN_LEADER_EPOCH), (-1, 0)):
            body = fetching("orders-20", {0: 0})
            body["topics"][0]["partitions"][0]["current_leader_epoch"] = current
            assert one(client.ask("Fetch", 11, **body))["error_code"] == code
        asked = [{"topic": "orders-20", "partitions": [{"partition": 0, "leader_epoch": epoch}]}]
        found = client.ask("OffsetForLeaderEpoch", 4, topics=asked)["topics"][0]["partitions"][0]
        assert (found["leader_epoch"], found["end_offset"]) == (epoch, 109)


def test_a_long_walk_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "data").close()
    going_on, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def walk(_: object) -> Iterator[None]:
        going_on.set()
        may_end.wait(60)
        has_ended.set()
        yield

    monkeypatch.setattr(ServedLog, "finding_committed", walk)
    with serving(tmp_path / "data") as server, RawClient(server.address) as client:
        answer = one(client.ask("Fetch", 11, **fetching("orders", {0: 0}, isolation_level=1, max_wait_ms=10)))
        assert (answer["error_code"], answer["records"]) == (Code.NONE, b"")
        assert going_on.wait(10)
    assert not has_ended.is_set()
    may_end.set()
    assert has_ended.wait(10)
