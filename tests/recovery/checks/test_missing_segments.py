"""A segment that is gone from the middle of a log is found by every command alike; compaction is not taken for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode, FindingJson, Severity
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.encode.message import build_messages
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.codec.plain.scanner import scan
from kafkalog.log import open_all
from kafkalog.log.walk.missing import MissingOffsets
from kafkalog.recovery import plan
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.spark.contents_files import finding_places, finding_rows
from testkit.judging.executions import choose_execution
from testkit.recorded.broker_dirs import STOPPED, brokers, own_copy
from testkit.running.command import kafkalog
from testkit.running.shares import EACH

Found = list[tuple[str, str, str, int | None]]
CODE = FindingCode.SEGMENT_MISSING


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")


def remove(directory: Path, number: int) -> tuple[int, int]:
    """Take a segment away; the offsets that go."""
    logs = sorted(directory.glob("*.log"))
    for path in directory.glob(f"{logs[number].stem}.*"):
        path.unlink()
    return int(logs[number].stem), int(logs[number + 1].stem) - 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_that_is_a_link_is_not_missing(number: int, root: Path) -> None:
    """What it holds is not read, and that is said; Kafka follows the link."""
    log = sorted((root / "stock-41-0").glob("*.log"))[number]
    log.rename(root.parent / log.name)
    log.symlink_to(root.parent / log.name)
    for command in ("ls", "verify", "plan"):
        said = " ".join(
            finding["code"] for line in kafkalog(command, "--json", root).objects for finding in line["findings"]
        )
        assert "unreadable" in said, command
        assert "segment_missing" not in said, command
        assert "foreign_file" not in said, command


def answers(root: Path) -> dict[str, Found]:
    """What each command says of it."""

    def of(rows: list[dict[str, object]]) -> Found:
        return [(str(each["severity"]), str(root / str(each["file"])), str(each["detail"]), each["offset"])  # type: ignore[misc]
                for each in rows if each["code"] == CODE]  # fmt: skip

    deep, shallow = (verify(root, deep=deep) for deep in (True, False))
    places = finding_places(open_all(root))
    return {
        "ls": of(kafkalog("ls", "--json", root).objects[0]["findings"]),
        "verify": of(plain(shaped(deep.findings, list[FindingJson]))),
        "verify --shallow": of(plain(shaped(shallow.findings, list[FindingJson]))),
        "plan": of(plain(shaped(plan(root)[0].findings, list[FindingJson]))),
        "spark": of([row for place in places for row in finding_rows(place)]),
    }


@pytest.mark.parametrize("name", ["orders-23-0", "stock-41-0", "sessions-20-0"])
def test_every_command_says_the_same(name: str, root: Path) -> None:
    first, last = remove(root / name, 1)
    found = answers(root)
    (row,) = found["verify"]
    severity, file, detail, offset = row
    assert (severity, offset) == ("warning", first)
    assert file == str(root / name / f"{last + 1:020d}.log")
    assert f"offsets {first} to {last} are missing" in detail
    assert found == {key: [row] for key in found}
    for command in ("ls", "verify", "plan"):
        finished = kafkalog(command, root)
        assert finished.code == 1
        assert str(CODE) in finished.out + finished.err


def test_the_end_of_a_segment_counts_as_well(root: Path) -> None:
    log = sorted((root / "stock-41-0").glob("*.log"))[1]
    data = log.read_bytes()
    position = 0
    while position + 12 + int.from_bytes(data[position + 8 : position + 12], "big") < len(data):
        last, position = position, position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    assert position > 0
    log.write_bytes(data[:position])
    (row,) = answers(root)["verify"]
    assert row[3] == int.from_bytes(data[position : position + 8], "big")
    assert last < position
    found = answers(root)
    assert found == {key: [row] for key in found}


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_that_was_emptied_is_missing_be_it_the_first(root: Path, number: int) -> None:
    bases = [int(path.stem) for path in sorted((root / "stock-41-0").glob("*.log"))]
    (root / "stock-41-0" / f"{bases[number]:020d}.log").write_bytes(b"")
    found = answers(root)
    (row,) = found["verify"]
    assert row[3] == bases[number]
    assert f"offsets {bases[number]} to {bases[number + 1] - 1} are missing" in row[2]
    assert found == {key: [row] for key in found}
    assert plan(root)[0].choice.own_by_partition["stock-41-0"].records_lost


def test_what_is_below_the_log_start_is_not_missing(root: Path) -> None:
    _first, last = remove(root / "stock-41-0", 1)
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\nstock-41 0 {last + 1}\n")
    found = answers(root)
    assert found == {key: [] for key in found}


def test_the_clusters_word_counts(tmp_path: Path) -> None:
    """A compacted topic whose log has no gap but the one between two segments; known by its policy, or by its name."""
    source = brokers("4.1.1/segments")[0] / "orders-23-0"
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "broker")
    assert read_topic_facts([str(root)]).is_compacted("trades-4")
    for name in ("trades-4-0", "__consumer_offsets-7", "unknown-0"):
        shutil.rmtree(root / name, ignore_errors=True)
        shutil.copytree(source, root / name)
        remove(root / name, 1)
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        (root / name).unlink()
    found = answers(root)
    assert [Path(file).parent.name for _severity, file, _detail, _offset in found["verify"]] == ["unknown-0"]
    assert found == dict.fromkeys(found, found["verify"])
    lost = {
        each.name for each in plan(root)[0].partitions if plan(root)[0].choice.own_by_partition[each.name].records_lost
    }
    assert not lost & {"trades-4-0", "__consumer_offsets-7"}
    shutil.rmtree(root / "__cluster_metadata-0")
    assert [Path(file).parent.name for _severity, file, _detail, _offset in answers(root)["verify"]] == [
        "trades-4-0", "unknown-0",
    ]  # fmt: skip


@EACH
def test_no_broker_that_stopped_in_order_has_it(
    each: int, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """Recorded directories, compacted topics among them, also where no metadata says that they are."""
    for case in [case for case in STOPPED if "compact" in case.name or STOPPED.index(case) % each == 0]:
        for broker in brokers(f"{case.version}/{case.name}"):
            for without in (False, True):
                root = broker
                if without:
                    if not (broker / "__cluster_metadata-0").exists():
                        continue
                    root = own_copy(broker, tmp_path / "alone" / "broker")
                    shutil.rmtree(root / "__cluster_metadata-0")
                found = [str(told) for told in verify(root, deep=False).findings if told.code is CODE]
                assert found == [], case.name
                compared("directories without a segment missing", 1)
                if without:
                    shutil.rmtree(root)


def test_gaps_and_damage() -> None:
    """Segments 0 to 9 and 20 to 29; then with a gap inside, with damage at the end, and with damage inside."""

    def found(*told: Callable[[MissingOffsets], None]) -> list[tuple[int, int]]:
        missing = MissingOffsets()
        for each in told:
            each(missing)
        return missing.found

    def segment(base: int, next_base: int | None = None) -> Callable[[MissingOffsets], None]:
        return lambda missing: missing.segment(base, next_base)

    def batches(first: int, last: int) -> Callable[[MissingOffsets], None]:
        return lambda missing: missing.batches(first, last)

    begin, middle, end = [segment(0, 20), batches(0, 4)], [batches(5, 9)], [segment(20), batches(20, 29)]
    assert found(*begin, *middle, *end) == [(10, 19)]
    assert found(*begin, batches(6, 9), *end) == []
    assert found(*begin, *middle, segment(20), batches(21, 29)) == []
    assert found(*begin, *middle, MissingOffsets.damaged, *end) == []
    assert found(segment(0, 7), batches(3, 6), segment(7), batches(7, 9)) == []  # records below were deleted
    assert found(segment(0, 7), segment(7), batches(7, 9)) == []  # all of it may have been compacted
    emptied = partial(MissingOffsets.segment, base=0, next_base=7, was_emptied=True)
    assert found(emptied, segment(7), batches(7, 9)) == [(0, 6)]
    assert found(*begin, MissingOffsets.damaged, segment(20, 40), batches(20, 29), segment(40)) == [(30, 39)]


def test_old_formats_and_wrappers(tmp_path: Path) -> None:
    root = own_copy(brokers("0.10.2.2/segments")[0], tmp_path / "broker")
    (name,) = [path.name for path in root.iterdir() if path.is_dir() and len([*path.glob("*.log")]) > 2][:1]
    first, _last = remove(root / name, 1)
    found = answers(root)
    assert [offset for _severity, _file, _detail, offset in found["verify"]] == [first]
    assert found == dict.fromkeys(found, found["verify"])


@pytest.mark.parametrize("number", [1, 2, 4])
def test_an_emptied_segment_is_named_itself(number: int, root: Path) -> None:
    logs = sorted((root / "stock-41-0").glob("*.log"))
    logs[number].write_bytes(b"")
    first, last = int(logs[number].stem), int(logs[number + 1].stem) - 1
    found = answers(root)
    (row,) = found["verify"]
    detail = f"offsets {first} to {last} are missing, and no others in this log are: this segment holds none of them"
    assert row == ("warning", str(logs[number]), detail, first)
    assert found == {key: [row] for key in found}


@pytest.mark.parametrize("second", [0, 4])
def test_of_several_missing_ranges_none_is_said_to_be_the_only_one(second: int, root: Path) -> None:
    directory = root / "stock-41-0"
    assert len(list(directory.glob("*.log"))) > 4
    ranges = [remove(directory, number) for number in sorted([2, second], reverse=True)]
    (directory / f"{min(ranges)[0]:020d}.index").touch()  # shows that the log began there
    details = [each.detail for each in verify(root).findings if each.code is CODE]
    assert sorted(details) == sorted(
        f"offsets {first} to {last} are missing: a segment before this one is gone, or the end of it"
        for first, last in ranges
    )


def test_an_emptied_segment_and_the_next_ones_gone(root: Path) -> None:
    logs = sorted((root / "stock-41-0").glob("*.log"))
    logs[1].write_bytes(b"")
    first, _last = remove(root / "stock-41-0", 2)
    (row,) = answers(root)["verify"]
    assert first > int(logs[1].stem)
    assert row[1] == str(logs[1])


def test_an_empty_segment_at_the_end_is_none_that_is_missing(root: Path) -> None:
    logs = sorted((root / "stock-41-0").glob("*.log"))
    logs[-1].write_bytes(b"")
    assert answers(root)["verify"] == []


def without_first_batch(log: Path) -> tuple[int, int]:
    """Take the first batch of a segment away; its offsets."""
    data = log.read_bytes()
    first, second = scan(data).batches[:2]
    log.write_bytes(data[second.position :])
    return int(log.stem), first.last_offset


def test_the_first_batches_of_a_segment_are_missed_where_the_topic_is_known_not_to_be_compacted(
    root: Path, tmp_path: Path
) -> None:
    directory = root / "sessions-20-0"
    first, last = without_first_batch(sorted(directory.glob("*.log"))[1])
    (found,) = (each for each in verify(root).findings if each.code is CODE)
    assert found.detail.startswith(f"offsets {first} to {last} are missing, and this topic is not compacted")
    (made,) = plan(root)
    lost = {way.way: [(each.first, each.last) for each in way.measured.lost] for way in made.choice.ways}
    assert lost["safe"] == lost["kafka"] == [(first, last)]
    assert "segment_missing" in kafkalog("ls", root).out
    exported = ("export", root, "-t", "sessions-20", "--format", "parquet", "--to", tmp_path / "out")
    assert kafkalog(*exported).code == 3
    shutil.rmtree(root / "__cluster_metadata-0")
    assert CODE not in {each.code for each in verify(root).findings}, "compaction may have removed them"
    assert kafkalog(*exported).code in (0, 1)


def test_batches_removed_from_a_segment_are_information_where_the_topic_is_known_not_to_be_compacted(
    root: Path,
) -> None:
    """A broker gives every offset of such a topic; 4.3.0 recorded these."""
    log = sorted((root / "sessions-20-0").glob("*.log"))[1]
    data = log.read_bytes()
    _first, gone, following = scan(data).batches[:3]
    log.write_bytes(data[: gone.position] + data[following.position :])
    first, last = gone.header.first_offset, gone.last_offset
    where = "and this topic is not compacted: something removed batches from this segment, as `--mode salvage` does"
    detail = f"offsets {first} to {last} are missing, {where}"
    (found,) = (each for each in verify(root).findings if each.code is CODE)
    assert (found.severity, found.detail, found.file, found.offset) == (Severity.INFO, detail, str(log), first)
    assert "lost with this plan: nothing" in kafkalog("plan", root).out
    shutil.rmtree(root / "__cluster_metadata-0")
    assert CODE not in {each.code for each in verify(root).findings}, "compaction may have removed them"


@pytest.mark.parametrize("fault", ["segment under a lower name", "two segments in one file"])
def test_what_overlaps_is_not_missing_too(fault: str, root: Path) -> None:
    """All records are there: only the file's name, or its length, is wrong."""
    first, second = sorted((root / "sessions-20-0").glob("*.log"))[:2]
    if fault == "segment under a lower name":
        for path in second.parent.glob(f"{second.stem}.*"):
            path.rename(path.with_name(f"{int(second.stem) - 3:020d}{path.suffix}"))
    else:
        first.write_bytes(first.read_bytes() + second.read_bytes())
        second.write_bytes(b"")
    for command in ("ls", "verify", "plan"):
        finished = kafkalog(command, root)
        assert "segment_overlap" in finished.out + finished.err
        assert "segment_missing" not in finished.out + finished.err, command


def test_a_log_that_was_compacted_before_its_topic_changed_has_lost_nothing() -> None:
    """A batch with fewer records than offsets, or many gaps, is what the cleaner leaves."""
    for gaps, is_cleaned in ((1, False), (16, False), (17, False), (1, True)):
        missing = MissingOffsets()
        missing.segment(0, None)
        missing.batches(0, 9)
        for number in range(1, gaps + 1):
            missing.batches(20 * number, 20 * number + 9, is_cleaned=is_cleaned)
        missing.batches(20 * gaps + 10, 20 * gaps + 19)
        ranges = [(20 * number - 10, 20 * number - 1) for number in range(1, gaps + 1)]
        assert missing.inside_if_uncleaned == ([] if is_cleaned or gaps > 16 else ranges)


def test_the_first_batches_of_a_segment_of_a_compacted_topic_are_not_missed(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/compact")[0], tmp_path / "broker")
    for directory in sorted(root.glob("ledger-*")):
        logs = [log for log in sorted(directory.glob("*.log")) if log.stat().st_size]
        if len(logs) > 1 and len(scan(logs[-1].read_bytes()).batches) > 1:
            without_first_batch(logs[-1])
    assert CODE not in {each.code for each in verify(root).findings}


@pytest.mark.parametrize("goes_back", [False, True])
def test_a_gap_at_the_head_is_one_unless_the_batch_had_a_wrong_offset(goes_back: bool) -> None:
    missing = MissingOffsets()
    missing.segment(0, 10)
    missing.batches(0, 9)
    missing.segment(10, None)
    missing.batches(15, 19)
    missing.batches(10 if goes_back else 20, 24)
    assert missing.found == []
    assert missing.found_if_uncleaned == ([] if goes_back else [(10, 14)])


@pytest.mark.compiled
@pytest.mark.parametrize("enough_bytes", [0, 1 << 62])
def test_compressed_entries_of_magic_1_hide_no_missing_segment(
    enough_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only their content has their first offset, which a scan of headers alone does not know."""
    choose_execution(monkeypatch, enough_bytes)
    (tmp_path / "t-0").mkdir()
    for base in (0, 24):
        records = [Record(base + n, 1000, TimestampType.CREATE_TIME, b"k", b"v") for n in range(4)]
        data = build_messages(records, magic=1, codec=Codec.GZIP)
        (tmp_path / "t-0" / f"{base:020}.log").write_bytes(data)
    for deep in (True, False):
        found = [each.detail for each in verify(tmp_path, deep=deep).findings if each.code is CODE]
        assert [detail[: len("offsets 4 to 23")] for detail in found] == ["offsets 4 to 23"], deep
