"""``kafkalog build``: what ``dump --json`` and Parquet or Arrow files hold becomes partitions again."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkalog import Log, StorageError, UsageError, legacy_partition, open_partition, partition_for_key, verify
from kafkalog import open as open_log_dir
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.model import Codec
from kafkalog.log import open_all
from kafkalog.log.writing.building import build_partitions
from testkit.recorded.broker_dirs import brokers
from testkit.running.command import kafkalog

START = 1_700_000_000_000_000


def rows(directory: Path) -> list[tuple[object, ...]]:
    return [
        (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for each in open_partition(directory).records()
    ]


@pytest.mark.parametrize("encoding", ["text", "base64"])
def test_a_dump_becomes_the_same_records_again(tmp_path: Path, encoding: str) -> None:
    (broker,) = brokers("4.1.1/segments")
    originals = {each.name: each for each in open_all(broker).readable() if each.segments[-1].size}
    dumped = tmp_path / "dump.jsonl"
    for name in originals:
        assert name is not None
        place = ("--topic", name.topic, "--partition", name.partition)
        found = kafkalog("dump", broker, "--json", "--encoding", encoding, *place)
        with dumped.open("a") as target:
            target.write(found.out)
    done = kafkalog("build", dumped, "--into", tmp_path / "new", "--keep-offsets", "--encoding", encoding, "--json")
    assert done.code == 0, done.err
    answer = done.objects
    assert {(each["topic"], each["partition"]) for each in answer} == {
        (name.topic, name.partition) for name in originals if name is not None
    }
    for name, original in originals.items():
        assert rows(tmp_path / "new" / str(name)) == rows(Path(original.path))
    # the metadata log says that this was a broker of KRaft, which starts only with a meta.properties
    told = [each for each in verify(tmp_path / "new").findings if each.severity is not Severity.INFO]
    assert {(each.code, "meta.properties" in each.detail) for each in told} == {(FindingCode.BROKER_REFUSES, True)}
    again = kafkalog("build", dumped, "--into", tmp_path / "new")
    assert (again.code, "already exists" in again.err) == (64, True)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("codec", list(Codec))
def test_columns_of_a_file_become_segments_with_indexes(tmp_path: Path, suffix: str, codec: Codec) -> None:
    count = 4000
    table = pa.table(
        {
            "value": [f"value {number}" * (number % 9) for number in range(count)],
            "key": [None if number % 7 == 0 else b"%d" % number for number in range(count)],
            "timestamp": pa.array(range(START, START + 1000 * count, 1000), pa.timestamp("us", "UTC")),
            "partition": [number % 2 for number in range(count)],
        }
    )  # fmt: skip
    path = tmp_path / f"records.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    done = kafkalog("build", path, "--into", tmp_path / "d", "--topic", "t", "--compression", codec.label,
                    "--segment-bytes", 20_000, "--batch-bytes", 3000)  # fmt: skip
    assert done.code == 0, done.err
    for partition in (0, 1):
        found = rows(tmp_path / "d" / f"t-{partition}")
        expected = [row for row in table.to_pylist() if row["partition"] == partition]
        assert [(offset, key, value) for offset, _time, key, value, _ in found] == [
            (offset, row["key"], row["value"].encode()) for offset, row in enumerate(expected)
        ]
        assert [time for _, time, *_ in found] == [1_700_000_000_000 + n for n in range(partition, count, 2)]
        batches = list(open_partition(tmp_path / "d" / f"t-{partition}").batches())
        assert {each.header.codec for each in batches} == {codec}
    assert verify(tmp_path / "d").is_clean
    more = kafkalog("build", path, "--into", tmp_path / "d", "--topic", "t", "--partition", 0, "--append")
    assert more.code == 2
    assert len(rows(tmp_path / "d" / "t-0")) == count // 2 + count


@pytest.mark.parametrize("partitioner", ["murmur2", "hash"])
def test_records_are_spread_by_their_keys(tmp_path: Path, partitioner: str) -> None:
    """One implementation for `Producer`, `build` and Spark: keys have one place."""
    keys = [None if n % 5 == 0 else b"key %d" % n for n in range(300)]
    given = [4 if n % 50 == 1 else None for n in range(300)]
    rows_of_file = {"key": keys, "value": [b"%d" % n for n in range(300)], "partition": pa.array(given, pa.int32())}
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({**rows_of_file, "topic": ["t" if n % 2 else "u" for n in range(300)]}), path)
    done = kafkalog("build", path, "--into", tmp_path / "d", "--partitions", 6, "--partitioner", partitioner, "--json")
    assert done.code == 0, done.err
    answer = done.objects
    assert sorted((each["topic"], each["partition"]) for each in answer) == [
        (topic, number) for topic in "tu" for number in range(6)
    ]
    log_dir = open_log_dir(tmp_path / "d")
    chosen = partition_for_key if partitioner == "murmur2" else legacy_partition
    without_key = dict.fromkeys(range(6), 0)
    for topic, number in log_dir:
        for record in log_dir[topic, number].records():
            row = int(record.value or b"")
            assert topic == ("t" if row % 2 else "u")
            if given[row] is not None:
                assert number == 4
            elif record.key is None:
                without_key[number] += 1
            else:
                assert number == chosen(record.key, 6)
    assert sum(each["records"] for each in answer) == 300
    assert max(without_key.values()) - min(without_key.values()) <= 1, "they take turns"
    assert len({log_dir["t", number].metadata for number in range(6)}) == 1, "one topic, one id"
    assert verify(tmp_path / "d").is_clean
    refused = kafkalog("build", path, "--into", tmp_path / "d", "--partitions", 6)
    assert (refused.code, "already exists" in refused.err) == (64, True)
    more = kafkalog("build", path, "--into", tmp_path / "d", "--partitions", 6, "--append", "--topic", "t")
    assert more.code == 2, more.err
    fewer = kafkalog("build", path, "--into", tmp_path / "d", "--partitions", 3, "--append")
    assert (fewer.code, "it has at least 6, but --partitions is 3" in fewer.err) == (64, True), fewer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--partition", 1], " --partitions spreads records by their keys: do not give a partition or offsets"),
        (["--keep-offsets"], " --partitions spreads records by their keys: do not give a partition or offsets"),
        ([], "records.parquet, record 1: partition 9 of t is not between 0 and 2"),
    ],
)
def test_places_that_cannot_be(tmp_path: Path, options: list[object], words: str) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"value": [b"a"], "partition": [9], "offset": [5]}), path)
    done = kafkalog("build", path, "--into", tmp_path / "d", "--topic", "t", "--partitions", 3, *options)
    assert (done.code, words in done.err) == (64, True), done.err


@pytest.mark.parametrize("options", [(), ("--partitions", 3)])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow", "arrows"])
def test_a_record_that_cannot_be_placed_is_named_with_its_position(
    tmp_path: Path, suffix: str, options: tuple[object, ...]
) -> None:
    """Also where it is not in the first batch of its file, nor in the first file, and after lines that are empty."""
    first, path = tmp_path / "first.jsonl", tmp_path / f"records.{suffix}"
    first.write_text('{"value": "a"}\n' * 3)
    rows = [{"value": b"v", "topic": "t", "partition": 0} for _ in range(10_020)]
    rows[10_010]["partition"] = -1
    table = pa.Table.from_pylist(rows, pa.schema({"value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}))
    where = "record 10011"
    if suffix == "jsonl":
        lines = [json.dumps({**row, "value": "v"}) for row in rows]
        path.write_text("\n".join(["", *lines[:10_005], "", " ", *lines[10_005:], ""]))
        where = "line 10014"
    elif suffix == "parquet":
        pq.write_table(table, path, row_group_size=1000)
    else:
        make = pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream
        with make(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    done = kafkalog("build", path, "--into", tmp_path / "d", *options)
    most = 2 if options else 2**31 - 1
    assert done.code == 64
    assert f"{path}, {where}: partition -1 of t is not between 0 and {most}" in done.err
    done = kafkalog("build", first, path, "--into", tmp_path / "e", "--topic", "u", *options)
    assert f"{path}, {where}: partition -1 of u " in done.err
    no_topic = kafkalog("build", first, "--into", tmp_path / "f")
    assert f"{first}, line 1: a record has no topic; name one for all" in no_topic.err


def test_rows_without_a_file_are_counted(tmp_path: Path) -> None:
    batch = pa.record_batch({"value": [b"1", b"2"], "partition": pa.array([0, 1], pa.int32())})
    stays = "t-0: what was written before stays, offsets 0 to 1"
    with pytest.raises(UsageError, match=rf"^record 4: partition 1 of t is not between 0 and 0\n{stays}$"):
        build_partitions([batch.slice(0, 1), batch.slice(0, 1), batch], tmp_path / "d", topic="t", num_partitions=1)


def test_offsets_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    batch = pa.record_batch({"value": pa.array([b"a"]), "offset": pa.array(["x"])})
    with pytest.raises(UsageError, match="column offset is string, not int64"):
        build_partitions([batch], tmp_path / "new", topic="t", keep_offsets=True)


def test_a_function_of_the_callers_chooses(tmp_path: Path) -> None:
    columns = pa.record_batch({"key": [b"a", b"bb", b"ccc"], "value": [b"1", b"2", b"3"]})
    built = build_partitions(
        [columns], tmp_path / "d", topic="t", num_partitions=4, partitioner=lambda key, n: len(key) % n
    )
    assert [each.records for each in built] == [0, 1, 1, 1]
    with pytest.raises(UsageError, match="the partitioner returned"):
        build_partitions([columns], tmp_path / "e", topic="t", num_partitions=4, partitioner=lambda _key, n: n)
    with pytest.raises(UsageError, match="not one of murmur2, hash"):
        build_partitions([columns], tmp_path / "f", topic="t", num_partitions=4, partitioner="sticky")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 2 is not a record"),
        (b"[]", "line 2 is not a record"),
        (b'{"value": 7}', "line 2 is not a record"),
        (b'{"key": "k"}', "there is no value"),
        (b'{"value": "v", "offset": 99999999999999999999}', "offset is"),
        (b'{"value": "v", "endTxnMarker": "COMMIT"}', "control record"),
        (b'{"value": null, "value_b64": "?"}', "not base64"),
        (b'{"value": "v", "headers": [["h"]]}', "line 2 is not a record"),
        (b"[" * 100_000, "line 2 is not a record"),
        (b'{"value": "v", "timestamp": -5}', "negative"),
    ],
    ids=range(10),
)
def test_what_is_no_record_is_named_with_its_line(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"value": "good"}\n' + line + b"\n")
    done = kafkalog("build", path, "--into", tmp_path / "d", "--topic", "t")
    assert done.code in (1, 64)
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_files_that_are_not_what_their_name_says(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.arrow", "a.arrows"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        done = kafkalog("build", tmp_path / name, "--into", tmp_path / "d", "--topic", "t")
        assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert kafkalog("build", tmp_path / "a.txt", "--into", tmp_path / "d").code == 64
    assert kafkalog("build", tmp_path / "none.jsonl", "--into", tmp_path / "d").code == 64


@pytest.mark.parametrize("topic", ["../escaped", "sub/orders", "/absolute", ".."])
def test_a_topic_in_the_data_leads_nowhere_else(tmp_path: Path, topic: str) -> None:
    (tmp_path / "new" / "sub").mkdir(parents=True)
    (tmp_path / "escaped").mkdir()
    source = tmp_path / "in.jsonl"
    place = f"{tmp_path}{topic}" if topic.startswith("/") else topic
    source.write_text(f'{{"topic": "{place}", "value": "v"}}\n')
    done = kafkalog("build", source, "--into", tmp_path / "new")
    assert (done.code, "is not the name of a topic" in done.err) == (64, True)
    assert not list(tmp_path.rglob("*.log"))


@pytest.mark.parametrize("at", range(6))
def test_a_build_that_fails_says_what_stays(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the first partitions had their records; the same command again appended them a second time."""
    lines = tmp_path / "lines.jsonl"
    records = [{"topic": "t", "partition": number % 3, "value": "v" * 9} for number in range(12)]
    lines.write_text("".join(json.dumps(each) + "\n" for each in records))
    root = tmp_path / "data"
    assert kafkalog("build", "--into", root, lines).code == 0
    append, calls = Log.append, [0]

    def full(self: Log, *given: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] > at:
            raise StorageError(errno.ENOSPC, "No space left on device", self.path)
        return append(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append", full)
        finished = kafkalog("build", "--append", "--batch-bytes", "100", "--into", root, lines)
    ends = {number: open_partition(root / f"t-{number}").log_end_offset() for number in range(3)}
    said = [line for line in finished.err.splitlines() if "what was written before stays" in line]
    assert said == [
        f"kafkalog: t-{number}: what was written before stays, offsets 4 to {end - 1}"
        for number, end in ends.items() if end > 4
    ]  # fmt: skip
    assert (finished.code, bool(said)) == (4, at > 0), finished
