"""`kafkalog explain`: places, what is nested, what is refused, and that it never fails on what a file may hold."""

from __future__ import annotations

import contextlib
import random
import shutil
import struct
from pathlib import Path

import pytest

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.compression import compress
from kafkalog.recovery.explain import PartRole, explain
from testkit.made import damage
from testkit.made.batches import LZ4, ZSTD, batch, fix_crc, message, patch, record, simple
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import recovery_cases
from testkit.running.command import kafkalog
from testkit.running.shares import EACH

NAME = "00000000000000000000.log"


def log(directory: Path, *entries: bytes, topic: str = "t") -> Path:
    target = directory / f"{topic}-0"
    target.mkdir(exist_ok=True)
    (target / NAME).write_bytes(b"".join(entries))
    return target / NAME


THREE = [simple(2, base_offset=0), simple(2, base_offset=2), simple(2, base_offset=4)]


def roles(path: Path, *, position: int | None = None, offset: int | None = None) -> list[tuple[str, int]]:
    parts = explain(str(path), position=position, offset=offset).parts
    return [(str(part.role), part.span.position) for part in parts]


def test_a_sound_log_is_explained_from_its_start_or_at_a_place(tmp_path: Path) -> None:
    path, size = log(tmp_path, *THREE), len(THREE[0])
    assert roles(path) == [("asked", 0), ("asked", size), ("asked", 2 * size)]
    assert roles(path, position=size + 5) == roles(path, offset=3) == [("asked", size)]


def test_damage_lies_between_its_neighbors(tmp_path: Path) -> None:
    size = len(THREE[0])
    path = log(tmp_path, THREE[0], patch(THREE[1], 70, b"\xff\xff"), THREE[2])
    wanted = [("before", 0), ("damaged", size), ("after", 2 * size)]
    assert roles(path) == roles(path, position=size + 1) == wanted
    assert roles(path, offset=3) == wanted
    assert roles(path, position=2 * size) == roles(path, offset=4) == [("asked", 2 * size)]


def test_an_unknown_compression_is_blamed_though_the_checksum_is_wrong_too(tmp_path: Path) -> None:
    unknown = patch(THREE[1], 22, b"\x05")  # CompressionType.forId knows 0 to 4
    (_, damaged, _) = explain(str(log(tmp_path, THREE[0], unknown, THREE[2]))).parts
    assert [child.name for child in damaged.span.children if child.code == "contradiction"] == ["attributes"]


@pytest.mark.parametrize(("size", "name"), [(16, "entry"), (17, "batch of magic 2")])
def test_an_entry_that_ends_before_its_magic_has_no_format(tmp_path: Path, size: int, name: str) -> None:
    (_, damaged) = explain(str(log(tmp_path, THREE[0], THREE[1][:size]))).parts
    assert damaged.what == name


def test_a_flipped_bit_is_named_with_its_field(tmp_path: Path) -> None:
    broken = bytearray(THREE[1])
    broken[30] ^= 4
    finished = kafkalog("explain", log(tmp_path, THREE[0], bytes(broken), THREE[2]))
    assert finished.code == 1
    assert "what breaks: base_timestamp" in finished.out
    assert f"bit 2 of byte {len(THREE[0]) + 30}" in finished.out


def test_zeros_are_zeros(tmp_path: Path) -> None:
    path = log(tmp_path, THREE[0], bytes(500))
    (_before, zeros) = explain(str(path)).parts
    assert (zeros.what, zeros.span.end - zeros.span.position, zeros.breaks) == ("zeros", 500, ())


def test_compressed_records_are_unpacked_and_marked(tmp_path: Path) -> None:
    plain = record(0, b"k", b"the value")
    lines = kafkalog("explain", "--json", log(tmp_path, batch(compress(ZSTD, plain), 1, attributes=ZSTD))).objects
    (unpacked,) = (line for line in lines if line.get("is_unpacked"))
    (value,) = (line for line in lines if line.get("field") == "records[0].value")
    assert (value["value"], value["position"], value["depth"]) == ('"the value"', plain.index(b"\x12the"), 2)
    assert unpacked["part"] == 0


def test_times_offsets_and_flags_are_in_words(tmp_path: Path) -> None:
    data = batch(record(3, timestamp_delta=500), 1, base_offset=7, base_timestamp=1_700_000_000_000,
                 max_timestamp=1_700_000_000_500, last_offset_delta=3, attributes=8)  # fmt: skip
    lines = kafkalog("explain", "--json", log(tmp_path, data)).objects
    words = {line["field"]: line["words"] for line in lines if line["kind"] == "field"}
    assert words["base_timestamp"] == "2023-11-14 22:13:20Z"
    assert words["records[0].offset_delta"] == "offset 10"
    assert words["attributes.timestamp_type"] == "LogAppendTime"
    assert words["attributes.codec"] == "none"
    assert words["crc"] == "as computed"


@pytest.mark.parametrize(
    ("case", "topic", "fields"),
    [
        ("4.1.1/txn", "trades-41-0", {"records[0].key.type", "records[0].value.coordinator_epoch"}),
        (
            "4.1.1/metadata",
            "__cluster_metadata-0",
            {"records[0].value.frame_version", "records[0].value.tagged_fields"},
        ),
        ("4.1.1/groups", "__consumer_offsets-*", {"records[0].key.type", "records[0].value.version"}),
    ],
)
def test_what_kafka_writes_itself_is_shown_inside(case: str, topic: str, fields: set[str]) -> None:
    found: set[str] = set()
    for path in sorted(brokers(case)[0].glob(f"{topic}/*.log")):
        for line in kafkalog("explain", "--json", "--max-fields", 5000, path).objects:
            found.add(line.get("field", ""))
    assert fields <= found


def test_every_kind_of_file_of_a_broker_is_explained() -> None:
    seen = set()
    for path in sorted(brokers("4.1.1/txn")[0].rglob("*")):
        kind = path.suffix or path.name
        if path.is_file() and path.stat().st_size and path.name != ".lock" and kind not in seen:
            seen.add(kind)
            found = explain(str(path))
            assert found.is_sound, (path, [part.breaks for part in found.parts])
            assert found.parts
            assert found.parts[0].span.children
    assert {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".properties", "leader-epoch-checkpoint"} <= seen


def test_an_index_is_compared_with_its_log(tmp_path: Path) -> None:
    source = next(path for path in sorted(brokers("4.1.1/segments")[0].rglob("*.index")) if path.stat().st_size >= 24
                  and path.read_bytes()[16:24].strip(b"\0"))  # fmt: skip
    target = tmp_path / source.parent.name
    shutil.copytree(source.parent, target)
    index = target / source.name
    index.write_bytes(patch(index.read_bytes(), 14, b"\x77"))
    (part,) = explain(str(index)).parts
    assert part.role is PartRole.DAMAGED
    assert part.breaks[0].endswith(".position")


def test_entries_of_an_index_are_not_wrong_because_their_log_is_damaged(tmp_path: Path) -> None:
    path, size = log(tmp_path, *THREE), len(THREE[0])
    index = path.with_suffix(".index")
    index.write_bytes(struct.pack(">4i", 3, size, 5, 2 * size))
    path.write_bytes(patch(path.read_bytes(), 2 * size + 8, b"\x7f"))
    assert explain(str(index)).parts[0].role is PartRole.ASKED
    index.write_bytes(struct.pack(">4i", 3, 7, 5, 2 * size))
    assert explain(str(index)).parts[0].breaks == ("[0].position",)


def test_an_index_that_ends_within_an_entry_is_explained_there(tmp_path: Path) -> None:
    index = log(tmp_path, *THREE).with_suffix(".index")
    index.with_suffix(".log").unlink()
    index.write_bytes(b"".join(struct.pack(">2i", number, number) for number in range(1, 1001)) + b"\x01\x02")
    (part,) = explain(str(index)).parts
    assert part.role is PartRole.DAMAGED
    assert part.span.position == 8 * 997


def test_indexes_that_brokers_of_all_versions_wrote_agree_with_their_logs() -> None:
    for case in STOPPED[::7]:
        for path in sorted(path for path in brokers(case.id)[0].rglob("*index"))[:40]:
            (part,) = explain(str(path)).parts
            assert part.breaks == (), path


@pytest.mark.parametrize(
    ("name", "text", "breaks"),
    [
        ("leader-epoch-checkpoint", "0\n1\n5 x\n", "[0].start_offset"),
        ("leader-epoch-checkpoint", "0\n2\n5 7\n", "count"),
        ("recovery-point-offset-checkpoint", "9\n0\n", "version"),
        ("recovery-point-offset-checkpoint", "0\n1\nt 0\n", "[0]"),
        ("partition.metadata", "version: 0\ntopic_id: short\n", "topic_id"),
        ("meta.properties", "version=one\n", "version"),
        ("meta.properties", "version=1\ncluster.id=a\n", "node.id"),
        ("quorum-state", "no sense", "text"),
        ("quorum-state", '{"data_version":2}', "data_version"),
        ("partition.metadata", "version: 0\n", "topic_id"),
    ],
)
def test_text_files_name_the_field_that_breaks(tmp_path: Path, name: str, text: str, breaks: str) -> None:
    (tmp_path / name).write_text(text)
    (part,) = explain(str(tmp_path / name)).parts
    assert part.breaks == (breaks,)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--position", "9999"], "has 222 bytes, and no byte 9999"),
        (["--offset", "99"], "ends before offset 99"),
        (["--offset", "1", "--position", "1"], "give one of them"),
    ],
)
def test_places_that_are_not_there_are_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    path = log(tmp_path, *THREE)
    finished = kafkalog("explain", path, *words)
    assert finished.code == 64
    assert sentence.replace("222", str(path.stat().st_size)) in finished.err


def test_files_that_are_not_kafkas_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path / "notes.txt", tmp_path):
        finished = kafkalog("explain", path)
        assert (finished.code, finished.err.count("\n")) == (64, 1)
    assert kafkalog("explain", tmp_path / NAME).code == 4


def test_max_fields_is_kept_and_said(tmp_path: Path) -> None:
    finished = kafkalog("explain", log(tmp_path, simple(200)), "--max-fields", 30)
    assert "only the first 30 fields are shown" in finished.out
    assert len(finished.out.splitlines()) < 60


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = log(tmp_path, batch(record(0, b"\x1b[31m", b"\x07"), 1), message(1, b"\x1b", None))
    assert "\x1b" not in kafkalog("explain", path).out
    assert "\x07" not in kafkalog("explain", path, "--json").out


@EACH
def test_every_recorded_damage_is_explained_without_a_trace(each: int, tmp_path: Path) -> None:
    for number, case in enumerate(recovery_cases()[:: 12 * each]):
        before = case.unpack_before(tmp_path / str(number))
        for path in sorted(before.rglob("*")):
            if path.is_file() and not path.is_symlink():
                finished = kafkalog("explain", path, "--max-fields", 60)
                assert finished.code in (0, 1, 64), (case, path, finished.err)
                assert "unexpected" not in finished.err


NAMES = (NAME, *(f"{NAME[:-4]}{kind}" for kind in (".index", ".timeindex", ".txnindex", ".snapshot")),
         "leader-epoch-checkpoint", "partition.metadata", f"{NAME[:-4]}-0000000001.checkpoint")  # fmt: skip


def test_any_bytes_in_any_file_are_explained_or_refused(tmp_path: Path) -> None:
    choose = random.Random(29)
    entries = [simple(3), wrapped(), message(4, magic=0), batch(compress(ZSTD, record()), 1, attributes=ZSTD)]
    entries.append(batch(record(0, b"\0\0\0\1", b"\0\0\0\0\0\5"), 1, attributes=0x30, producer_id=3, producer_epoch=0))
    for topic in ("__cluster_metadata", "__consumer_offsets", "t"):
        (tmp_path / f"{topic}-0").mkdir()
    for _ in range(600):
        data = bytearray(b"".join(choose.choice(entries) for _ in range(choose.randrange(1, 5))))
        for _ in range(choose.randrange(5)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        data = data[: choose.randrange(len(data))] if choose.random() < 0.3 else data
        data = bytearray(choose.randbytes(choose.randrange(100))) if choose.random() < 0.2 else data
        topic, name = choose.choice(("__cluster_metadata", "__consumer_offsets", "t")), choose.choice((NAME, *NAMES))
        path = tmp_path / f"{topic}-0" / name
        path.write_bytes(data + bytes(choose.choice((0, 0, 50))))
        position = choose.choice((None, choose.randrange(len(data) + 1)))
        with contextlib.suppress(KafkaLogError):
            explain(str(path), position=position, max_fields=choose.choice((1, 5, 500)))


def wrapped() -> bytes:
    return message(6, None, compress(LZ4, message(0) + message(1), magic=1), attributes=LZ4)


def test_an_offset_below_zero_before_damage_is_only_an_offset(tmp_path: Path) -> None:
    path = log(tmp_path, message(-792633534417207292, magic=0), b"junk" * 20)
    assert roles(path)[0] == ("damaged", 0)
    assert roles(path, position=30)[-1][0] == "damaged"


def test_a_length_that_swallows_the_next_batch_is_the_length(tmp_path: Path) -> None:
    swallowing = patch(THREE[1], 8, (len(THREE[1]) + len(THREE[2]) - 12).to_bytes(4, "big"))
    damaged = explain(str(log(tmp_path, THREE[0], swallowing, THREE[2]))).parts[1]
    assert damaged.breaks == ("batch_length",)


def test_a_compression_that_is_wrong_is_named(tmp_path: Path) -> None:
    wrong = fix_crc(patch(batch(compress(ZSTD, record()), 1, attributes=ZSTD), 22, b"\x01"))
    (part,) = explain(str(log(tmp_path, wrong)), position=0).parts
    assert part.breaks[0] == "attributes"


def test_a_displaced_batch_is_where_a_log_stops_making_sense(tmp_path: Path) -> None:
    """As `verify` has it: what comes behind it tells that its base offset is wrong."""
    batches = [damage.batch(number, [damage.record(0)]) for number in range(6)]
    batches[3] = damage.put(batches[3], "base_offset", 99)
    done = kafkalog("explain", log(tmp_path, *batches))
    assert "offset_displaced: offset 99 where 3 should come, and 4 follows" in done.out
    assert f"{sum(map(len, batches[:3]))}" in done.out
