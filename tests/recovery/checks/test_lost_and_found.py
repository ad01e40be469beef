"""Segments that a file system's repair has put into lost+found, files that are not Kafka's with batches in them, and
segments with a wrong name.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog import verify
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.codec.plain.scanner import scan
from kafkalog.log import open_log_dir, open_segment
from kafkalog.recovery.checks.lost_and_found import batches_outside, known_ends, misnamed_segments
from testkit.made.tens import log_of_tens, ten
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

TOPIC = "sensors-0-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory whose partition has several segments, as a broker recorded it."""
    return own_copy(brokers("4.3.0/segments")[0], tmp_path / "disk" / "data")


def of_code(code: str, command: str, root: Path) -> list[dict[str, Any]]:
    (line,) = kafkalog(command, "--json", root).objects
    return [each for each in line["findings"] if each["code"] == code]


def outside(command: str, root: Path) -> list[dict[str, Any]]:
    return of_code("batches_outside", command, root)


def logs(root: Path) -> list[Path]:
    return sorted((root / TOPIC).glob("*.log"))


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("place", ["inside", "beside", "in a directory"])
def test_a_segment_in_lost_and_found_is_offered_to_its_partition(
    command: str, which: str, place: str, root: Path
) -> None:
    assert outside(command, root) == []
    found = logs(root)
    assert len(found) > 2
    log = {"first": found[0], "middle": found[1], "last": found[-1]}[which]
    lost = root / "lost+found" if place == "inside" else root.parent / "lost+found"
    target = lost / "#4711" / log.name if place == "in a directory" else lost / "#4711"
    target.parent.mkdir(parents=True)
    log.rename(target)
    (lost / "#4712").write_bytes(bytes(500))
    (finding,) = outside(command, root)
    file = os.path.relpath(target, root) if command == "plan" else str(target)
    assert (finding["file"], finding["severity"]) == (file, "warning")
    assert finding["offset"] == int(log.stem)
    assert f"copy it to {log}" in finding["detail"]
    target.rename(log)  # the advice, followed
    (lost / "#4712").unlink()
    for each in (target.parent, lost):
        if each.is_dir():
            each.rmdir()
    assert verify(root).is_clean


def split_middle(root: Path) -> None:
    """Make three segments of the middle one."""
    middle = logs(root)[1]
    data = middle.read_bytes()
    batches = scan(data).batches
    bounds = [0, *(batches[len(batches) * part // 3].position for part in (1, 2)), len(data)]
    middle.chmod(0o600)
    for start, end in reversed(list(itertools.pairwise(bounds))):
        first = next(batch.header.first_offset for batch in batches if batch.position == start)
        (root / TOPIC / segment_file(first, FileKind.LOG)).write_bytes(data[start:end])


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
@pytest.mark.parametrize("part", ["beginning", "middle", "end"])
def test_files_that_follow_one_another_fill_a_hole_of_several_segments(command: str, part: str, root: Path) -> None:
    split_middle(root)
    found = logs(root)
    assert len(found) == 5
    gone = {"beginning": found[:2], "middle": found[1:4], "end": found[-2:]}[part]
    lost = root / "lost+found"
    lost.mkdir()
    for number, log in enumerate(gone):
        log.rename(lost / f"#{number}")
    details = [finding["detail"] for finding in sorted(outside(command, root), key=lambda each: each["file"])]
    assert len(details) == len(gone)
    for log, detail in zip(gone, details, strict=True):
        assert f"copy it to {log}" in detail
    hole = f"offsets {int(gone[0].stem)} to {int(found[4].stem) - 1} are missing"
    assert (hole in details[0] and hole in details[1]) is (part == "middle")
    (lost / "#1").unlink()  # of the chain: what it led to is not reached any more
    left = [finding["detail"] for finding in outside(command, root)]
    fits = {"beginning": [False], "middle": [True, True], "end": [True]}[part]
    assert ["copy it to" in detail for detail in left] == fits


@pytest.mark.parametrize("place", ["inside", "beside"])
def test_a_partition_directory_in_lost_and_found_is_known_by_its_topic_id(place: str, root: Path) -> None:
    lost = (root if place == "inside" else root.parent) / "lost+found" / "#131090"
    lost.parent.mkdir()
    (root / TOPIC).rename(lost)
    assert (lost / "partition.metadata").exists()
    verb = "mv" if place == "inside" else "cp -a"
    screen = kafkalog("plan", root, columns=1000).out.partition("\n\n")[0]
    assert screen.endswith(f":\n  {verb} '{lost}' {root / TOPIC}")
    assert "copy it to" not in "".join(finding["detail"] for finding in outside("plan", root))
    (missing,) = of_code("partition_missing", "verify", root)
    assert "#131090 looks like it, renamed" in missing["detail"]
    lost.rename(root / TOPIC)
    lost.parent.rmdir()
    assert verify(root).is_clean


SEVERAL = "several partitions may lack these offsets, so look at its records first"


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
@pytest.mark.parametrize("which", ["middle", "last"])
def test_a_file_beside_two_directories_is_offered_once_and_where_offsets_are_missing(
    command: str, which: str, root: Path
) -> None:
    """Each log ends alike, and has a segment that begins where the file ends."""
    other = own_copy(brokers("4.3.0/segments")[0], root.parent / "more")
    for directory in (root, other):
        shutil.copytree(directory / TOPIC, directory / "twin-0")
    log = {"middle": logs(root)[1], "last": logs(root)[-1]}[which]
    file = root.parent / "lost+found" / "#131"
    file.parent.mkdir()

    def details() -> list[str]:
        lines = kafkalog(command, "--json", root, other).objects
        return [each["detail"] for line in lines for each in line["findings"] if each["code"] == "batches_outside"]

    log.rename(file)
    (detail,) = details()
    assert f": copy it to {log}, once" in detail
    assert detail.count("copy it") == 1
    assert SEVERAL not in detail
    printed = " ".join(kafkalog("plan", root, other).out.split())
    assert "look at ../lost+found/#131 first" in printed
    (other / TOPIC / log.name).unlink()
    of_root, of_other = details()
    for place, offered in ((root, of_root), (other, of_other)):
        assert f": copy it to {place / TOPIC / log.name}, once" in offered
        assert offered.endswith(SEVERAL)
    assert "look at ../lost+found/#131 first" in " ".join(kafkalog("plan", root, other).out.split())
    for place in (root, other):
        shutil.copyfile(file, place / TOPIC / log.name)
    assert all(detail.endswith(f"/{TOPIC}/{log.name} holds all of it") for detail in details())
    assert len(details()) == 2


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_what_fits_nowhere_is_named_with_its_offsets(command: str, root: Path, tmp_path: Path) -> None:
    other = brokers("4.3.0/segments")[0] / TOPIC
    copy = root / "lost+found" / "#1"
    copy.parent.mkdir()
    copy.write_bytes(sorted(other.glob("*.log"))[1].read_bytes())
    (finding,) = outside(command, root)
    assert f"{root / TOPIC / max(other.glob('*074.log')).name} holds all of it" in finding["detail"]
    assert "copy it" not in finding["detail"]
    copy.write_bytes(max(other.glob("*195.log")).read_bytes())
    (root / TOPIC / "00000000000000000195.log").write_bytes(b"")
    high_watermarks = root / "replication-offset-checkpoint"
    high_watermarks.chmod(0o600)
    high_watermarks.write_text(high_watermarks.read_text().replace("sensors-0 0 235", "sensors-0 0 195"))
    (finding,) = outside(command, root)
    assert "no partition in" in finding["detail"]


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
def test_a_file_that_is_not_kafkas_is_looked_into(command: str, root: Path) -> None:
    last = logs(root)[-1]
    saved = last.with_name(f"{last.name}.bak")
    last.rename(saved)
    (finding,) = outside(command, root)
    assert finding["file"] == (os.path.relpath(saved, root) if command == "plan" else str(saved))
    assert f"copy it to {last}" in finding["detail"]


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_copy_of_a_segment_beside_it_is_nothing_lost_whatever_its_name(command: str, which: int, root: Path) -> None:
    log = logs(root)[which]
    copy = log.with_name("copy.log")
    copy.write_bytes(log.read_bytes())
    assert outside(command, root) == []
    data = log.read_bytes()
    log.chmod(0o600)
    log.write_bytes(b"")
    (finding,) = outside(command, root)
    assert f"copy it to {log}, which holds no sound batch now" in finding["detail"]
    log.write_bytes(data)


def test_what_cannot_be_examined_in_lost_and_found_is_a_finding(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, real = root.parent / "lost+found" / "#1", os.lstat
    lost.parent.mkdir()
    lost.write_bytes(bytes(100))

    def lstat(path: Any, **options: Any) -> os.stat_result:
        if path == str(lost):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, **options)

    log_dir = open_log_dir(root)
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lstat)
        (finding,) = batches_outside(log_dir, known_ends({}))
    assert (finding.code, finding.file) == ("unreadable", str(lost))


def test_an_unreadable_partition_is_a_row_and_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(kafkalog("ls", "--json", root).objects[0]["partitions"])
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if os.path.realpath(path) == str(root / TOPIC):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        finished, text = kafkalog("ls", "--json", root), kafkalog("ls", "--all", root)
    assert (finished.code, text.code) == (4, 4)
    rows = {each["path"]: each["health"] for each in finished.objects[0]["partitions"]}
    assert len(rows) == count
    assert rows[str(root / TOPIC)] == "unreadable"
    assert [each["code"] for each in finished.objects[0]["findings"]] == ["unreadable"]
    assert "1 not ok, 1 not counted" in text.out


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
def test_a_copy_beside_the_whole_log_is_offered_to_nobody(command: str, root: Path) -> None:
    first, *_, last = logs(root)
    for log in (first, last):
        log.with_name(f"{log.name}.bak").write_bytes(log.read_bytes())
    assert outside(command, root) == []


@pytest.mark.parametrize("content", [b"", bytes(200)])
@pytest.mark.parametrize("place", ["own", "lost+found"])
def test_the_home_is_the_partition_that_lacks_the_batches(place: str, content: bytes, root: Path) -> None:
    """Empty partitions end at offset 0 too, but their high watermark says that nothing of them is missing."""
    log = logs(root)[0]
    (root / "lost+found").mkdir()
    file = log.with_name(f"{log.name}.1") if place == "own" else root / "lost+found" / "#1"
    log.rename(file)
    log.write_bytes(content)
    (finding,) = outside("verify", root)
    assert finding["detail"].count("copy it to") == 1
    assert f"copy it to {log}, which holds no sound batch now" in finding["detail"]


def test_the_home_of_a_whole_log_is_told_by_its_high_watermark(root: Path) -> None:
    (log,) = (root / "quotes-22-0").glob("*.log")
    (root / "lost+found").mkdir()
    log.rename(root / "lost+found" / "#1")
    (finding,) = outside("verify", root)
    assert finding["detail"].count("copy it to") == 1
    assert f"copy it to {log}" in finding["detail"]


def test_batches_are_not_copied_over_other_batches(root: Path) -> None:
    """The file has the beginning of the segment, and the damaged segment has the rest."""
    log = logs(root)[-1]
    whole = log.read_bytes()
    half = [*open_segment(log).batches()][4].position
    log.with_name(f"{log.name}.1").write_bytes(whole[:half])
    log.chmod(0o600)
    log.write_bytes(bytes(100) + whole[100:])
    (finding,) = outside("verify", root)
    assert "copy it to" not in finding["detail"]
    assert f"{log} holds other sound batches" in finding["detail"]
    log.write_bytes(whole[: half - 100])
    log.with_name(f"{log.name}.1").write_bytes(whole)
    (finding,) = outside("verify", root)
    assert f"copy it to {log}, of which that file holds 3 batches" in finding["detail"]


def test_an_earlier_copy_of_a_segment_that_has_grown_since_is_nothing_lost(root: Path) -> None:
    log = logs(root)[-1]
    whole = log.read_bytes()
    half = [*open_segment(log).batches()][4].position
    log.with_name(f"{log.name}.1").write_bytes(whole[:half])
    assert outside("verify", root) == []
    (root / "lost+found").mkdir()
    log.with_name(f"{log.name}.1").rename(root / "lost+found" / "#1")
    (finding,) = outside("verify", root)
    assert finding["detail"].endswith(f"{log} holds all of it")


def test_misnamed_segments_are_renamed_and_nothing_is_lost(root: Path) -> None:
    """A broker reads no segment whose name has 19 digits."""
    before = {log: log.read_bytes() for log in logs(root)}
    for log in before:
        log.rename(log.with_name(log.name[1:]))
    printed = " ".join(kafkalog("plan", root).out.split())
    assert f"look at {TOPIC}/{min(before).name[1:]} and 2 more first" in printed
    findings = outside("plan", root)
    assert [each["offset"] for each in findings] == [int(log.stem) for log in sorted(before)]
    report = root.parent / "report.txt"
    assert kafkalog("report", "-o", report, root).code == 1
    assert "unless they are in a file outside the logs" in " ".join(report.read_text().split())
    for each in findings:
        (root / each["file"]).rename(each["detail"].partition("rename it to ")[2].partition(",")[0])
    assert {log: log.read_bytes() for log in logs(root)} == before
    assert verify(root).is_clean


def rename_all(folder: Path, names: dict[str, str], suffixes: str = "*") -> None:
    """Give all files of segments the names of others at once; `names` has the new base offset by the old one."""
    moved = []
    for path in [path for stem in names for path in folder.glob(stem + suffixes) if path.suffix != ".snapshot"]:
        moved.append(path.rename(path.with_name(f"{names[path.stem]}{path.suffix}.moved")))
    for path in moved:
        path.rename(path.with_suffix(""))


@pytest.mark.parametrize("closed", [True, False], ids=["closed in order", "after a kill"])
@pytest.mark.parametrize("suffixes", ["*", ".log"], ids=["all files", "logs alone"])
@pytest.mark.parametrize("turn", [[0, 1], [1, 2], [0, 2], [0, 1, 2], [2, 1, 0]], ids=str)
def test_segments_with_each_others_names_are_told_their_own(
    turn: list[int], suffixes: str, closed: bool, root: Path
) -> None:
    """The undamaged logs are what the sentences must lead back to, and a full recovery to indexes that fit."""
    before = {log: log.read_bytes() for log in logs(root)}
    stems = [log.stem for log in before]
    rename_all(root / TOPIC, {stems[old]: stems[new] for old, new in zip(turn, turn[1:] + turn[:1], strict=True)},
               suffixes)  # fmt: skip
    if not closed:
        (root / ".kafka_cleanshutdown").unlink()
    told = {}
    for command in ("plan", "verify", "ls"):
        findings = of_code("segment_misnamed", command, root)
        homes = [each["detail"].partition(" belong in ")[2].partition(".log")[0] for each in findings]
        told[command] = {Path(each["file"]).stem: home for each, home in zip(findings, homes, strict=True)}
        assert {each["offset"] for each in findings} == {int(stems[number]) for number in turn}
    assert len(told["plan"]) == len(turn)
    assert told["plan"] == told["verify"] == told["ls"]
    printed = " ".join(kafkalog("plan", root).out.split())
    report = root.parent / "report.html"
    assert kafkalog("report", "-o", report, root).code == 1
    for text in (printed, " ".join(report.read_text().split())):
        assert "the names that segment_misnamed says, which brings their records back" in text
        assert "everything sound is kept" not in text
        assert "no other way loses less" not in text
    assert printed.index("the names that segment_misnamed says") < printed.index("kafkalog recover")
    rename_all(root / TOPIC, told["plan"], ".log")
    assert {log: log.read_bytes() for log in logs(root)} == before
    assert verify(root).is_clean == (suffixes == ".log")
    kafkalog("recover", "--full", "--yes", root)
    assert {log: log.read_bytes() for log in logs(root)} == before
    assert verify(root).is_clean


def test_a_segment_whose_name_no_other_has_is_not_exchanged(root: Path) -> None:
    first, second, *_ = logs(root)
    second.write_bytes(first.read_bytes())
    assert of_code("segment_misnamed", "verify", root) == []
    assert of_code("offset_below_segment", "verify", root)


SHIFTS = {
    "first, too high": (0, 3),
    "middle, a little too high": (1, 3),
    "middle, too high": (1, 11),
    "middle, too low": (1, -3),
    "last, too high": (-1, 3),
    "last, too low": (-1, -3),
    "last, above its own end": (-1, 1000),
    "middle, above the next one": (1, 1000),
}


@pytest.mark.parametrize("closed", [True, False], ids=["closed in order", "after a kill"])
@pytest.mark.parametrize("suffixes", ["*", ".log"], ids=["all files", "log alone"])
@pytest.mark.parametrize("which", SHIFTS)
def test_one_segment_with_a_wrong_name_is_told_its_own(which: str, suffixes: str, closed: bool, root: Path) -> None:
    """The recommended command dropped records that brokers of 3.9.1 and 4.4.0 served, or left records that they skipped
    in service, and no command said which name brings all of them back.
    """
    before = {log: log.read_bytes() for log in logs(root)}
    number, by = SHIFTS[which]
    log = list(before)[number]
    wrong = f"{int(log.stem) + by:020}"
    rename_all(root / TOPIC, {log.stem: wrong}, suffixes)
    if not closed:
        (root / ".kafka_cleanshutdown").unlink()
    for command in ("plan", "verify", "ls"):
        (finding,) = of_code("segment_misnamed", command, root)
        assert (Path(finding["file"]).stem, finding["offset"]) == (wrong, int(log.stem))
        assert f" belong in {log.name}: rename this file alone to that" in finding["detail"]
        assert [each for each in of_code("offset_displaced", command, root) if wrong in each["file"]] == []
    printed = " ".join(kafkalog("plan", root).out.split())
    report = root.parent / "report.html"
    assert kafkalog("report", "-o", report, root).code == 1
    for text in (printed, " ".join(report.read_text().split())):
        assert f"{wrong}.log" in text
        assert f"the name {log.name}" in text
        assert "no other way loses less" not in text
    rename_all(root / TOPIC, {wrong: log.stem}, ".log")
    kafkalog("recover", "--full", "--yes", root)
    assert {log: log.read_bytes() for log in logs(root)} == before
    assert verify(root).is_clean


def test_a_name_above_the_batches_of_a_middle_segment_loses_nothing(root: Path) -> None:
    """Kafka 3.9.1 and 4.4.0 served all records, and fetches at each of these offsets: the segment before has none of
    them, and a fetch goes on from there to the next one.
    """
    _first, middle, *_ = logs(root)
    rename_all(root / TOPIC, {middle.stem: f"{int(middle.stem) + 11:020}"})
    printed = " ".join(kafkalog("plan", root).out.split())
    assert "lost with this plan: nothing" in printed
    assert "consumers stop at damage" not in printed
    assert of_code("segment_missing", "plan", root) == of_code("segment_missing", "verify", root) == []
    assert kafkalog("recover", "--full", "--mode", "salvage", "--yes", root).code == 3


@pytest.mark.parametrize("full", [False, True], ids=["before", "after a full recovery"])
def test_a_name_too_low_skips_the_records_at_the_end_of_the_segment_before(full: bool, root: Path) -> None:
    """Kafka 3.9.1 and 4.4.0 led a fetch of those offsets to the segment with the low name, and skipped them."""
    _first, middle, *_ = logs(root)
    rename_all(root / TOPIC, {middle.stem: f"{int(middle.stem) - 3:020}"})
    if full:
        kafkalog("recover", "--full", "--yes", root)
    printed = " ".join(kafkalog("plan", root).out.split())
    assert "lost with this plan: nothing, but consumers may skip records until a segment gets its right name" in printed
    start, end = int(middle.stem) - 3, int(middle.stem) - 1
    assert f"consumers whose fetch begins at an offset from {start} to {end} skip the records up to there" in printed
    assert f"records may be skipped in 1 partition ({TOPIC})" in printed


def test_one_wrong_base_offset_is_no_wrong_name(root: Path) -> None:
    """A batch's base offset is covered by no checksum."""
    for log in logs(root)[:2]:
        data = bytearray(log.read_bytes())
        offset = int.from_bytes(data[:8], "big")
        data[:8] = (offset + 1000).to_bytes(8, "big") if offset == 0 else (offset - 1).to_bytes(8, "big")
        log.write_bytes(data)
    for command in ("plan", "verify", "ls"):
        assert of_code("segment_misnamed", command, root) == []


@pytest.mark.parametrize("base", [20, 25, 30, 15, 35], ids=str)
def test_a_cleaned_segment_may_have_a_name_below_its_first_batch(base: int, tmp_path: Path) -> None:
    """Compaction leaves a gap between the end of a segment, the name of the next one, and its first batch at 30."""
    (first,) = log_of_tens(tmp_path, 2)
    second = first.with_name(segment_file(base, FileKind.LOG))
    second.write_bytes(ten(30) + ten(40))
    findings = misnamed_segments([(0, str(first)), (base, str(second))])
    assert [(each.offset, each.file) for each in findings] == [(30, str(second))] * (base in (15, 35))


def test_of_a_single_batch_its_base_offset_may_be_wrong_and_not_the_name(tmp_path: Path) -> None:
    """Nothing but the batch itself says that it belongs below the name."""
    (first,) = log_of_tens(tmp_path, 2)
    second = first.with_name(segment_file(60, FileKind.LOG))
    for content, is_sure in ((ten(30), False), (ten(20), True), (ten(30) + ten(70), False), (ten(30) + ten(40), True)):
        second.write_bytes(content)
        assert bool(misnamed_segments([(0, str(first)), (60, str(second))])) is is_sure


def test_segments_that_overlap_have_no_wrong_name(tmp_path: Path) -> None:
    (first,) = log_of_tens(tmp_path, 2)
    second = first.with_name(segment_file(5, FileKind.LOG))
    for content in (ten(10) + ten(20), b""):
        second.write_bytes(content)
        assert misnamed_segments([(0, str(first)), (5, str(second))]) == []
