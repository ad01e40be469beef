"""What comes after damage: how much is said to be there is what `dump --all` shows and what recovery counts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.log import Partition, open_all, open_partition
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.damage.census import census
from kafkalog.recovery.facts.survey import survey
from testkit.judging.executions import choose_execution
from testkit.made.batches import batch, field, message, patch, record, simple
from testkit.recorded.fixture_data import recovery_cases, recovery_families
from testkit.running.command import kafkalog as command

FAMILIES = [name for name in recovery_families() if name not in ("bases", "crc_fixed")]
"""Those of `crc_fixed` claim counts that their bytes do not hold, under a right checksum: headers are believed."""


def before_damage(partition: Partition) -> tuple[int, bool]:
    """Records that a consumer sees, and whether damage stops it; not where only the content of a batch does."""
    reader = partition.records(on_damage="stop")
    count = len({record.offset for record in reader})
    codes = {found.code for found in reader.findings}
    ended = {FindingCode.CRC_MISMATCH, FindingCode.BATCH_SIZE_INVALID}
    return count, reader.damaged_at is not None and bool(codes & ended)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("family", FAMILIES)
def test_recovery_counts_the_same(
    family: str, every: int, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    partitions = 0
    for number, case in enumerate(recovery_cases([family])[::every]):
        root = case.unpack_before(tmp_path / str(number))
        reports = {each.path: each for each in verify(root).partitions}
        listed = {each["path"]: each for each in command("ls", "--json", root).objects[0]["partitions"]}
        with survey(str(root)) as found:
            for partition in open_all(root).partitions:
                if any(name.endswith(".swap") for name in partition.unfinished):
                    continue
                report = reports[partition.path]
                for name in ("sound_batches_behind_damage", "sound_records_behind_damage"):
                    assert listed[partition.path][name] == getattr(report, name), case.id
                seen, is_damaged = before_damage(partition)
                if not is_damaged:
                    continue
                name = Path(partition.path).name
                counted = census(found.tree(), [name], partition.log_start_offset)
                assert seen + report.sound_records_behind_damage == counted.records, (case.id, name)
                partitions += 1
    compared(f"damaged partitions of which verify, ls and plan count the same, {family}", partitions)


# -- dump --------------------------------------------------------------------------------------------------------------


def v2(number: int) -> bytes:
    """Three records from offset 3 * number on."""
    return simple(3, 3 * number)


def old(magic: int) -> Callable[[int], bytes]:
    """One message."""
    return lambda number: message(number, value=b"value %d" % number, magic=magic)


def wrapped(number: int) -> bytes:
    """Three messages of version 1 in a compressed one, with the offset of the last."""
    inside = b"".join(message(each, value=b"value %d" % each) for each in range(3))
    body = field(None) + field(gzip.compress(inside))
    return message(3 * number + 2, magic=1, attributes=1, body=body)


def timed(number: int) -> bytes:
    """Two records, the offsets 2 * number and the next, from second `number` on; 250 ms lie between them."""
    times = {"base_timestamp": 1000 * number, "max_timestamp": 1000 * number + 250}
    return batch(record(0) + record(1, timestamp_delta=250), 2, base_offset=2 * number, **times)


LAYOUTS: dict[str, tuple[Callable[[int], bytes], int]] = {
    "v2": (v2, 3),
    "v1": (old(1), 1),
    "v0": (old(0), 1),
    "wrapped": (wrapped, 3),
    "timed": (timed, 2),
}
SIZE_BEYOND, SIZE_ZERO, CHECKSUM = (8, b"\x7f\0\0\0"), (8, bytes(4)), (-1, b"?")


def damaged(layout: str, *places: tuple[int, tuple[int, bytes]]) -> tuple[bytes, list[int]]:
    """Twelve batches of which some are damaged, and the offsets that are left."""
    make, records = LAYOUTS[layout]
    batches = [make(number) for number in range(12)]
    for number, (position, data) in places:
        batches[number] = patch(batches[number], position % len(batches[number]), data)
    gone = {number for number, _ in places}
    kept = [number * records + each for number in range(12) if number not in gone for each in range(records)]
    return b"".join(batches), kept


def log_of(tmp_path: Path, data: bytes, *later: tuple[int, bytes]) -> Path:
    directory = tmp_path / "made-0"
    directory.mkdir()
    for base, content in [(0, data), *later]:
        (directory / f"{base:020d}.log").write_bytes(content)
    return directory


TWO = [
    ((4, CHECKSUM),),
    ((4, CHECKSUM), (8, CHECKSUM)),
    ((4, SIZE_BEYOND),),
    ((2, SIZE_BEYOND), (7, SIZE_BEYOND)),
    ((2, SIZE_ZERO), (9, CHECKSUM)),
    ((2, CHECKSUM), (3, CHECKSUM), (9, SIZE_BEYOND)),
]


@pytest.mark.parametrize("enough", [0, 1 << 62], ids=["compiled", "plain"])
@pytest.mark.parametrize("places", TWO, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dump_all_shows_every_sound_record_behind_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, places: tuple[tuple[int, tuple[int, bytes]], ...],
    enough: int,
) -> None:  # fmt: skip
    choose_execution(monkeypatch, enough)
    data, kept = damaged(layout, *places)
    directory = log_of(tmp_path, data)
    shown = command("dump", "--all", "--json", directory)
    assert [line["offset"] for line in shown.objects] == kept
    assert command("dump", "--all", directory).out.count("| offset: ") == len(kept)
    batches = command("dump", "--all", "--batches", "--json", directory).objects
    assert len(batches) == 12 - len(places)
    *_, last = open_partition(directory).batches(on_damage="skip").by_run()
    assert last.final_offset == kept[-1]
    stopped = command("dump", "--json", directory)
    seen = [line["offset"] for line in stopped.objects]
    assert seen == [offset for offset in kept if offset < places[0][0] * LAYOUTS[layout][1]]
    behind = len(kept) - len(seen)
    number = 12 - len(places) - places[0][0]
    assert f"{number} sound batches with {behind} records after it; --all shows them" in stopped.err
    assert (stopped.code, shown.code) == (1, 1)
    (partition,) = verify(directory).partitions
    assert (partition.sound_batches_behind_damage, partition.sound_records_behind_damage) == (number, behind)
    listed = command("ls", directory)
    assert f"{number} sound batches with {behind} records after it" in listed.err
    assert json.loads(command("ls", "--json", directory).out)["partitions"][0]["segments"][0][
        "sound_records_behind_damage"
    ] == behind  # fmt: skip


def test_later_segments_count_and_are_shown(tmp_path: Path) -> None:
    data, kept = damaged("v2", (4, CHECKSUM))
    directory = log_of(tmp_path, data, (36, simple(5, 36) + simple(1, 41)), (42, simple(2, 42)))
    kept += range(36, 44)
    assert [record.offset for record in open_partition(directory).records(all=True)] == kept
    (partition,) = command("ls", "--json", directory).objects[0]["partitions"]
    names = ("sound_batches_behind_damage", "sound_records_behind_damage")
    found = [tuple(segment[name] for name in names) for segment in partition["segments"]]
    assert found == [(7, 21), (2, 6), (1, 2)]
    assert "29 records in 10 batches after damage" in partition["health"]
    with_segments = command("ls", "--segments", directory).out
    assert "21 records in 7 batches" in with_segments


@pytest.mark.parametrize("change", [SIZE_BEYOND, SIZE_ZERO, CHECKSUM], ids=str)
def test_a_log_inside_of_a_damaged_value_is_not_taken_for_records(tmp_path: Path, change: tuple[int, bytes]) -> None:
    inside = b"".join(v2(number) for number in range(40, 60))
    outer = batch(record(value=inside), 1, base_offset=6)
    position, data = change
    whole = v2(0) + v2(1) + patch(outer, position % len(outer), data) + simple(2, 7) + simple(2, 9)
    directory = log_of(tmp_path, whole)
    assert [record.offset for record in open_partition(directory).records(all=True)] == [*range(6), *range(7, 11)]
    assert verify(directory).partitions[0].sound_records_behind_damage == 4
    torn = tmp_path / "torn"
    torn.mkdir()
    directory = log_of(torn, v2(0) + v2(1) + outer[:-30])  # a tail that was torn holds whole batches too
    (finding,) = (found for found in verify(directory).findings if found.code is not FindingCode.INDEX_MISSING)
    assert (finding.code, finding.severity) == (FindingCode.TORN_TAIL, Severity.WARNING)


def test_nothing_behind_is_not_spoken_of(tmp_path: Path) -> None:
    data, _ = damaged("v2", (11, CHECKSUM))
    finished = command("dump", log_of(tmp_path, data))
    assert finished.code == 1
    assert "sound" not in finished.err


def test_records_below_the_log_start_do_not_count(tmp_path: Path) -> None:
    data, _ = damaged("v2", (2, CHECKSUM))
    directory = log_of(tmp_path, data)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nmade 0 34\n")
    (partition,) = verify(directory).partitions
    assert (partition.sound_batches_behind_damage, partition.sound_records_behind_damage) == (9, 2)


def test_nothing_is_known_of_a_log_that_begins_with_damage(tmp_path: Path) -> None:
    directory = log_of(tmp_path, b"\x13" * 300)
    row = command("ls", directory).lines[-1]
    assert row.split("\t")[5:7] == ["unknown", "unknown"] if "\t" in row else "unknown" in row
    assert kafkalog.verify(directory).partitions[0].sound_batches_behind_damage == 0


@pytest.mark.parametrize("enough", [0, 1 << 62], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("layout", "places", "unread"),
    [
        ("timed", [(4, CHECKSUM)], [(8, 9, 3250, 5000)]),
        ("timed", [(4, CHECKSUM), (5, SIZE_BEYOND)], [(8, 11, 3250, 6000)]),
        ("timed", [(4, CHECKSUM), (5, CHECKSUM), (8, CHECKSUM)], [(8, 11, 3250, 6000), (16, 17, 7250, 9000)]),
        ("timed", [(5, CHECKSUM), (6, CHECKSUM)], [(10, 13, 4250, 7000)]),
        ("timed", [(6, CHECKSUM)], [(12, 13, None, 7000)]),
        ("timed", [(0, CHECKSUM), (11, CHECKSUM)], [(0, 1, None, 1000), (22, None, 10_250, None)]),
        ("timed", [(0, CHECKSUM)], [(0, 1, None, 1000)]),
        ("timed", [(11, CHECKSUM)], [(22, None, 10_250, None)]),
        ("v1", [(4, CHECKSUM)], [(4, 4, 0, 0)]),
        ("v1", [(2, CHECKSUM), (7, CHECKSUM)], [(2, 2, 0, 0), (7, 7, 0, 0)]),
        ("v0", [(4, CHECKSUM)], [(4, 4, None, None)]),
        ("wrapped", [(4, CHECKSUM)], [(12, 14, 0, 0)]),
    ],
)
def test_each_damage_names_the_offsets_and_times_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, places: list[tuple[int, tuple[int, bytes]]],
    unread: list[tuple[int | None, ...]], enough: int,
) -> None:  # fmt: skip
    """Batches are numbered, and offsets and times follow from that; nothing that the damaged one claims counts.

    Six are in each of two segments; of a segment the first damage is told.
    """
    choose_execution(monkeypatch, enough)
    data, _ = damaged(layout, *places)
    make, records = LAYOUTS[layout]
    cut = sum(len(make(number)) for number in range(6))
    path = log_of(tmp_path, data[:cut], (6 * records, data[cut:]))
    names = ("first_offset", "last_offset", "newest_before", "oldest_after")
    wanted = [dict(zip(names, each, strict=True)) for each in unread]
    for name in ("verify", "ls"):
        findings = command(name, "--json", path).objects[0]["findings"]
        findings += command(name, "--json", path).objects[0]["partitions"][0].get("findings", [])
        told = [each["unread"] for each in findings if "unread" in each]
        assert told in (wanted, 2 * wanted), name  # in the list of all findings, and in that of the partition


@pytest.mark.parametrize(("high_watermark", "missing_from"), [(9, None), (10, 9), (4, None)])
@pytest.mark.parametrize("splits", [False, True])
def test_offsets_below_the_high_watermark_are_missing_at_the_end_alone(
    high_watermark: int, missing_from: int | None, splits: bool, tmp_path: Path
) -> None:
    """Offsets 0 to 8 in three batches, the second one damaged; what it took, its own finding says."""
    root, directory = tmp_path / "logs", tmp_path / "logs" / "__consumer_offsets-0"
    directory.mkdir(parents=True)
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (root / "replication-offset-checkpoint").write_text(f"0\n1\n__consumer_offsets 0 {high_watermark}\n")
    hurt = bytearray(simple(3, 3))
    hurt[-1] ^= 1
    first, last = simple(3) + bytes(hurt), simple(3, 6)
    for base, data in ((0, first), (6, last)) if splits else ((0, first + last),):
        (directory / f"{base:020d}.log").write_bytes(data)
    code = "log_end_below_high_watermark"
    for name in ("verify", "ls"):
        (line,) = command(name, "--json", root).objects
        known = [*line["findings"], *line["partitions"][0].get("findings", [])]
        found = [each for each in known if each["code"] == code]
        assert {each["offset"] for each in found} == ({missing_from} if missing_from is not None else set()), name
        assert all(each["detail"] == f"the log ends at 9, the high watermark was {high_watermark}" for each in found)
    assert (code in command("groups", root).err) is (missing_from is not None)
