"""``kafkalog build``: what ``dump --json`` and Parquet or Arrow files hold becomes partitions again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker_dirs import brokers
from command import kafkalog
from kafkalog import open_partition, verify
from kafkalog.codec.model import Codec
from kafkalog.log import open_all

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
    assert done.code == 2, done.err
    (answer,) = done.objects
    assert {(each["topic"], each["partition"]) for each in answer["partitions"]} == {
        (name.topic, name.partition) for name in originals if name is not None
    }
    for name, original in originals.items():
        assert rows(tmp_path / "new" / str(name)) == rows(Path(original.path))
    assert verify(tmp_path / "new").is_clean
    again = kafkalog("build", dumped, "--into", tmp_path / "new")
    assert (again.code, "exists already" in again.err) == (64, True)


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
    assert done.code == 2, done.err
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
    assert kafkalog("build", tmp_path / "none.jsonl", "--into", tmp_path / "d").code == 4
