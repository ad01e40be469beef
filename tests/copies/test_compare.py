"""Several brokers' volumes side by side: the best copy, and where the others diverge from it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kafkalog.copies.copy_walk as copy_walk
from kafkalog import FindingCode, UsageError, compare
from kafkalog.cli.shapes.compare_lines import partition_line
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.copies.common_history import CommonPast, Lineage, common_past
from kafkalog.copies.comparison import CopyReport
from kafkalog.log.directories.selection import Selection
from kafkalog.types import Comparison
from testkit.judging.trees import copy_tree, stamps
from testkit.made.batches import message, record, records_batch
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case, replica_roles, unpack_replicas
from testkit.running.command import Finished
from testkit.running.command import kafkalog as run

ROLES = replica_roles()
OLD, NEW, BEHIND = (ROLES[part] for part in ("old_leader", "new_leader", "behind"))


@pytest.fixture
def volumes(tmp_path: Path) -> dict[int, Path]:
    """The log directories of three brokers that went apart."""
    root = unpack_replicas(tmp_path / "volumes")
    return {broker: root / f"broker-{broker}" for broker in ROLES["brokers"]}


@pytest.fixture(params=[pytest.param("columns", marks=pytest.mark.compiled), "batches"])
def execution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reading give the same."""
    monkeypatch.setattr(copy_walk, "is_there", lambda: request.param == "columns")
    return str(request.param)


def by_broker(found: Comparison, topic: str) -> dict[int, CopyReport]:
    return {copy.node_id: copy for copy in found[topic, 0].copies if copy.node_id is not None}


def log_of(volume: Path, topic: str = "tale", number: int = 0) -> Path:
    return sorted((volume / f"{topic}-0").glob("*.log"))[number]


def flip(log: Path, number: int, offset: int = BATCH.size + 2) -> None:
    """Break one batch of a log."""
    data = bytearray(log.read_bytes())
    data[scan(bytes(data)).batches[number].position + offset] ^= 0xFF
    log.write_bytes(data)


# -- lineage, as Kafka's follower finds it -----------------------------------------------------------------------------


def lineage(end: int, **starts: int) -> Lineage:
    return Lineage.of([LeaderEpoch(int(epoch[1:]), start) for epoch, start in starts.items()], end)


@pytest.mark.parametrize(
    ("follower", "leader", "expected"),
    [
        (lineage(50, e0=0), lineage(50, e0=0), CommonPast(0, 50)),
        (lineage(50, e0=0), lineage(80, e0=0), CommonPast(0, 50)),
        (lineage(80, e0=0), lineage(50, e0=0), CommonPast(0, 50)),
        # the deposed leader of epoch 0 went on while epoch 1 began
        (lineage(130, e0=0), lineage(120, e0=0, e1=90), CommonPast(0, 90)),
        (lineage(120, e0=0, e1=90), lineage(130, e0=0), CommonPast(0, 90)),
        # both have epochs that the other one does not know: the question is asked again
        (lineage(100, e0=0, e2=60), lineage(100, e0=0, e1=50, e3=80), CommonPast(0, 50)),
        (lineage(100, e1=0, e3=40, e5=80), lineage(100, e1=0, e2=30, e4=70), CommonPast(1, 30)),
        (lineage(10, e7=0), lineage(20, e9=15), CommonPast(7, 10)),
        (lineage(20, e7=0), lineage(20, e9=15), CommonPast(7, 15)),
        # epochs that begin at the log's end or after it are forgotten
        (lineage(60, e0=0, e4=60), lineage(80, e0=0, e5=70), CommonPast(0, 60)),
        (lineage(50), lineage(80, e0=0), None),
        (lineage(50, e3=0), lineage(80), CommonPast(3, 50)),
    ],
)
def test_a_follower_finds_its_common_past_with_a_leader(
    follower: Lineage, leader: Lineage, expected: CommonPast | None
) -> None:
    assert common_past(follower, leader) == expected


# -- the recorded cluster ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("execution")
def test_three_brokers_that_went_apart(volumes: dict[int, Path], tmp_path: Path) -> None:
    before = {broker: stamps(volume) for broker, volume in volumes.items()}
    found = compare(*volumes.values())
    assert {broker: stamps(volume) for broker, volume in volumes.items()} == before
    assert not found.is_clean
    tale = found["tale", 0]
    assert tale.best is not None
    assert tale.best.node_id == NEW
    assert "leader epoch, 1, is the highest" in tale.why
    assert tale.replica_state is not None
    assert tale.replica_state.isr == (NEW,)
    copies = by_broker(found, "tale")
    assert [(copies[node].log_end_offset, copies[node].records) for node in (OLD, NEW, BEHIND)] == [
        (130, 130), (120, 120), (60, 60),
    ]  # fmt: skip
    assert [copies[node].last_epoch for node in (OLD, NEW, BEHIND)] == [0, 1, 0]
    assert [copies[node].in_sync for node in (OLD, NEW, BEHIND)] == [False, True, False]

    # the deposed leader: by epochs and by content the same offset, which is where Kafka cut it
    old, after = copies[OLD], unpack_replicas(tmp_path / "after", after=True)
    kept = b"".join(path.read_bytes() for path in sorted((after / f"broker-{OLD}" / "tale-0").glob("*.log")))
    own = b"".join(log_of(volumes[OLD], number=number).read_bytes() for number in range(3))
    length = next(at for at in range(len(own)) if own[at : at + 1] != kept[at : at + 1])
    cut = scan(own[:length]).batches[-1].header.next_offset
    assert old.past == CommonPast(0, cut)
    assert old.records_cut == 40
    assert old.difference is not None
    assert old.difference.other_bytes is not None
    here, there = old.difference.other_bytes
    assert (here.offset, there.offset) == (cut, cut)
    assert here.path.startswith(str(volumes[OLD]))
    assert there.path.startswith(str(volumes[NEW]))

    behind = copies[BEHIND]
    assert not behind.diverges
    assert behind.difference is not None
    assert behind.difference.lacks is not None
    assert (behind.difference.lacks.offset, behind.difference.lacks_records) == (60, 60)
    assert behind.difference.has_alone is None

    assert found["equal", 0].is_clean
    assert found["alone", 0].is_clean
    assert found["alone", 0].why == "it is the only copy"


@pytest.mark.usefixtures("execution")
def test_what_was_cleaned_differently_is_no_difference(volumes: dict[int, Path]) -> None:
    """Each broker cleans for itself: what one has cleaned and the other has not yet is not lost."""
    copies = by_broker(compare(volumes[OLD], volumes[NEW], volumes[BEHIND]), "cleaned")
    behind = copies[BEHIND].difference
    assert behind is not None
    assert behind.cleaned > 0
    assert behind.other_bytes is None
    assert behind.lacks is not None
    assert behind.lacks.offset >= copies[BEHIND].log_end_offset
    (volumes[BEHIND] / "cleaner-offset-checkpoint").unlink()
    for broker in (OLD, NEW):
        (volumes[broker] / "cleaner-offset-checkpoint").write_text("0\n0\n")
    known = by_broker(compare(*volumes.values()), "cleaned")[BEHIND].difference
    assert known is not None
    assert known.has_alone is None, "the metadata says that the topic is compacted"
    assert known.lacks is not None
    assert known.lacks.offset >= 150
    for volume in volumes.values():
        shutil.rmtree(volume / "__cluster_metadata-0")
    blind = by_broker(compare(*volumes.values()), "cleaned")[BEHIND].difference
    assert blind is not None
    assert not blind.is_none


@pytest.mark.usefixtures("execution")
def test_damage_is_named_and_what_stands_behind_it_counted(volumes: dict[int, Path]) -> None:
    log = log_of(volumes[OLD], "equal")
    flip(log, 2)
    batches = scan(log_of(volumes[NEW], "equal").read_bytes()).batches
    broken = batches[2]
    found = compare(*volumes.values())
    copy, equal = by_broker(found, "equal")[OLD], found["equal", 0]
    assert copy.damage is not None
    assert (copy.damage.code, copy.damage.position, copy.damage.file) == (
        FindingCode.CRC_MISMATCH, broken.position, str(log),
    )  # fmt: skip
    records = broken.header.records_count  # type: ignore[union-attr]
    first = broken.header.base_offset  # type: ignore[union-attr]
    assert copy.records == 80 - records
    assert copy.records_behind_damage == 80 - first - records
    assert (copy.log_end_offset, copy.sound_end_offset) == (80, first)
    assert equal.best is not None
    assert equal.best.node_id != OLD, "the ISR's last member is damaged, and the others are as long"
    assert copy.difference is not None
    assert copy.difference.lacks_for_damage
    assert copy.difference.lacks_records == records
    assert not equal.is_clean


@pytest.mark.usefixtures("execution")
def test_a_segment_that_is_gone_is_a_hole(volumes: dict[int, Path]) -> None:
    log_of(volumes[NEW]).unlink()
    log_of(volumes[BEHIND], number=1).unlink()
    copies = by_broker(compare(*volumes.values()), "tale")
    assert copies[NEW].log_start_offset == 44
    assert copies[BEHIND].log_end_offset == 44
    log_of(volumes[OLD], number=1).unlink()
    middle = by_broker(compare(volumes[OLD], volumes[NEW]), "tale")[OLD].difference
    assert middle is not None
    assert middle.lacks is not None
    assert (middle.lacks.offset, middle.lacks_records) == (44, 46)
    assert not middle.lacks_for_damage


@pytest.mark.usefixtures("execution")
def test_the_leader_epoch_of_a_batch_may_be_all_that_differs(volumes: dict[int, Path]) -> None:
    flip(log_of(volumes[OLD], "equal"), 1, BATCH.position("partition_leader_epoch") + 3)
    found = by_broker(compare(*volumes.values()), "equal")
    parted = [copy.difference for copy in found.values() if copy.difference is not None and not copy.difference.is_none]
    assert parted
    assert all(each.only_epoch_differs and each.other_batches == 1 for each in parted)
    assert {copy.last_epoch for copy in found.values()} == {0}, "an epoch that no list knows does not lead"


# -- both executions say the same --------------------------------------------------------------------------------------


def changed_at_random(volumes: dict[int, Path], seed: int) -> None:
    rng = random.Random(seed)
    for volume in volumes.values():
        for topic in ("equal", "tale", "cleaned"):
            for log in sorted((volume / f"{topic}-0").glob("*.log")):
                data = bytearray(log.read_bytes())
                match rng.randrange(8):
                    case 0 if data:
                        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                    case 1:
                        del data[rng.randrange(len(data) + 1) :]
                    case 2:
                        data += bytes(rng.randrange(300))
                    case 3 if data:
                        batches = scan(bytes(data)).batches
                        again = batches[rng.randrange(len(batches))]
                        data += again.data
                    case 4 if data:
                        batches = scan(bytes(data)).batches
                        gone = batches[rng.randrange(len(batches))]
                        del data[gone.position : gone.position + gone.size]
                    case _:
                        continue
                log.write_bytes(data)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(12))
def test_columns_and_batches_say_the_same(seed: int, volumes: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    changed_at_random(volumes, seed)
    said = []
    for by_columns in (True, False):
        monkeypatch.setattr(copy_walk, "is_there", lambda answer=by_columns: answer)
        said.append(list(map(partition_line, compare(*volumes.values()).partitions)))
    assert said[0] == said[1]


def naive_rows(volume: Path, topic: str) -> dict[int, bytes]:
    """Sound batches by their first offset, found by trying every byte."""
    found: dict[int, bytes] = {}
    for log in sorted((volume / f"{topic}-0").glob("*.log")):
        data = log.read_bytes()
        for start in range(len(data)):
            for batch in scan(data[start:]).batches[:1]:
                found.setdefault(batch.header.base_offset, bytes(batch.data))  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_is_lacked_and_had_alone_is_what_a_search_of_every_byte_finds(seed: int, volumes: dict[int, Path]) -> None:
    rng = random.Random(seed)
    for volume in volumes.values():
        flip(log_of(volume, "equal", rng.randrange(2)), rng.randrange(3))
    found = compare(*volumes.values())["equal", 0]
    assert found.best is not None
    rows = {broker: naive_rows(volume, "equal") for broker, volume in volumes.items()}
    best = rows[found.best.node_id or 0]
    for copy in found.copies:
        if copy is found.best or copy.difference is None:
            continue
        own = rows[copy.node_id or 0]
        lacks = sum(BATCH.reader("records_count")(data, 0) for start, data in best.items() if start not in own)
        alone = sum(BATCH.reader("records_count")(data, 0) for start, data in own.items() if start not in best)
        assert (copy.difference.lacks_records, copy.difference.has_alone_records) == (lacks, alone)


# -- what cannot be a comparison, or only half of one ------------------------------------------------------------------


def test_the_same_directory_twice_and_a_file(volumes: dict[int, Path], tmp_path: Path) -> None:
    one = volumes[OLD]
    link = tmp_path / "link"
    link.symlink_to(one)
    for paths, words in (
        ([one, one], "given 2 times"),
        ([one, link], "given 2 times"),
        ([one], "two or more"),
        ([one, log_of(one)], "not a directory"),
        ([one, tmp_path / "nothing"], "does not exist"),
        ([one, one / "tale-0" / ".."], "given 2 times"),
    ):
        with pytest.raises(UsageError, match=words):
            compare(*paths)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="is not a Kafka log directory"):
        compare(one, tmp_path / "empty")
    first = compare(*volumes.values(), select=Selection.of(partitions=[0]))
    assert {each.partition for each in first.partitions} == {0}


def test_two_copies_on_one_broker_and_two_clusters(volumes: dict[int, Path], tmp_path: Path) -> None:
    shutil.copytree(volumes[OLD], tmp_path / "again")
    twice = compare(volumes[OLD], tmp_path / "again")
    assert {finding.code for finding in twice.findings} == {FindingCode.DUPLICATE_PARTITION}
    assert all("same broker" in (finding.detail or "") for finding in twice.findings)
    meta = volumes[NEW] / "meta.properties"
    meta.write_text(meta.read_text().replace("cluster.id=", "cluster.id=x"))
    clusters = compare(volumes[OLD], volumes[NEW])
    assert [finding.code for finding in clusters.findings] == [FindingCode.NOT_REPLICAS]
    assert not clusters.is_clean


def test_a_topic_that_was_made_anew(volumes: dict[int, Path]) -> None:
    (volumes[NEW] / "equal-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (finding,) = compare(volumes[OLD], volumes[NEW], select=Selection.of(["equal"])).findings
    assert finding.code == FindingCode.NOT_REPLICAS
    assert "several topics of the same name" in (finding.detail or "")


def test_directories_that_no_broker_serves_are_left_out(volumes: dict[int, Path]) -> None:
    suffix = "0123456789abcdef0123456789abcdef"
    for state in ("delete", "future", "stray"):
        shutil.copytree(volumes[OLD] / "equal-0", volumes[OLD] / f"equal-0.{suffix}-{state}")
    found = compare(*volumes.values())
    assert len(found.left_out) == 3
    assert found["equal", 0].is_clean
    pointed = compare(volumes[OLD] / f"equal-0.{suffix}-delete", volumes[NEW] / "equal-0")
    assert pointed["equal", 0].is_clean, "what is pointed at is a copy"


def test_partition_directories_know_their_broker(volumes: dict[int, Path]) -> None:
    found = compare(volumes[OLD] / "tale-0", volumes[NEW] / "tale-0")
    assert {copy.node_id for copy in found["tale", 0].copies} == {OLD, NEW}
    assert found["tale", 0].best is not None
    assert found["tale", 0].best.high_watermark == 120


def test_some_topics_and_partitions(volumes: dict[int, Path]) -> None:
    found = compare(*volumes.values(), select=Selection.of(["tale", "equal"], excluded=["equal-0"]))
    assert [(each.topic, each.partition) for each in found.partitions] == [("tale", 0)]
    assert found.memory is not None, "the metadata is read for the ISRs all the same"


def test_a_volume_without_a_copy_that_it_should_hold(volumes: dict[int, Path]) -> None:
    shutil.rmtree(volumes[BEHIND] / "equal-0")
    found = compare(*volumes.values())["equal", 0]
    assert found.missing == [BEHIND]
    assert not found.is_clean


def test_a_directory_that_cannot_be_read_does_not_stop_the_others(
    volumes: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = str(volumes[NEW] / "equal-0")
    scan_directory = os.scandir

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path) == shut:
            raise PermissionError(13, "Permission denied", shut)
        return scan_directory(path)

    monkeypatch.setattr("os.scandir", refusing)
    finished = run("compare", *volumes.values())
    assert finished.code == 4
    assert "Permission denied" in finished.out
    assert "tale-0" in finished.out
    found = compare(*volumes.values())
    equal = found["equal", 0]
    assert [copy.error is not None for copy in equal.copies].count(True) == 1
    assert by_broker(found, "tale")[NEW].high_watermark == 120, "the rest of its volume is as it was"
    assert by_broker(found, "equal")[NEW].error is not None
    assert equal.best is not None


@pytest.mark.usefixtures("execution")
def test_what_is_there_twice_is_no_damage_and_what_comes_too_late_is(tmp_path: Path) -> None:
    made = [records_batch(record(0, value=b"%d" % number)) for number in range(5)]
    plain = [offset.to_bytes(8, "big") + each[8:] for offset, each in enumerate(made)]
    orders = {"whole": [0, 1, 2, 3, 4], "twice": [0, 1, 2, 1, 3, 4], "late": [0, 2, 1, 3, 4]}
    for name, order in orders.items():
        directory = tmp_path / name / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(plain[number] for number in order))
    (found,) = compare(*(tmp_path / name / "t-0" for name in orders)).partitions
    whole, twice, late = found.copies
    assert (whole.damage, twice.damage) == (None, None)
    assert (whole.records, twice.records, late.records) == (5, 5, 4)
    assert late.damage is not None
    assert (late.damage.code, late.damage.offset) == (FindingCode.OFFSET_NOT_INCREASING, 1)


def test_links_are_not_followed(volumes: dict[int, Path], tmp_path: Path) -> None:
    log = log_of(volumes[NEW], "equal")
    log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(tmp_path / "elsewhere.log")
    (volumes[NEW] / "cleaned-0").rename(tmp_path / "cleaned-0")
    (volumes[NEW] / "cleaned-0").symlink_to(tmp_path / "cleaned-0")
    found = compare(*volumes.values())
    assert by_broker(found, "equal")[NEW].log_start_offset == 44
    copy = by_broker(found, "equal")[NEW]
    assert any(finding.code == FindingCode.UNREADABLE for finding in copy.findings)
    assert copy.damage is not None
    assert (copy.damage.code, copy.damage.file) == (FindingCode.UNREADABLE, str(log))
    assert copy.sound_end_offset == 0
    best = found["equal", 0].best
    assert best is not None
    assert best.node_id != NEW
    assert found.unreadable == [(str(log), "a symbolic link, which is not followed")]
    finished = run("compare", *volumes.values())
    assert finished.code == 4
    said = f"is damaged: unreadable in {log} at byte 0 (a symbolic link, which is not followed)"
    assert said in " ".join(finished.out.split())
    assert NEW not in by_broker(found, "cleaned")
    assert any(finding.code == FindingCode.FOREIGN_DIRECTORY for finding in found.findings)


def test_a_link_in_the_only_volume_is_no_second_one(volumes: dict[int, Path], tmp_path: Path) -> None:
    log = log_of(volumes[NEW], "equal")
    log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(tmp_path / "elsewhere.log")
    with pytest.raises(UsageError, match="two or more"):
        compare(volumes[NEW])


def partition(root: Path, *logs: bytes) -> Path:
    """A partition directory whose segments begin at 0, 1000, ..."""
    root.mkdir(parents=True)
    for number, data in enumerate(logs):
        (root / f"{1000 * number:020}.log").write_bytes(data)
    return root


@pytest.mark.usefixtures("execution")
def test_empty_logs(tmp_path: Path) -> None:
    one, other = partition(tmp_path / "1" / "t-0", b""), partition(tmp_path / "2" / "t-0", b"")
    assert compare(one, other).is_clean
    third = partition(tmp_path / "3" / "t-0", records_batch(b"v"))
    found = compare(one, third)["t", 0]
    assert found.best is not None
    assert found.best.path == str(third)
    assert "no copy is better" in compare(one, other)["t", 0].why


@pytest.mark.usefixtures("execution")
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages(magic: int, tmp_path: Path) -> None:
    data = b"".join(message(offset, magic=magic) for offset in range(6))
    one, other = partition(tmp_path / "1" / "t-0", data), partition(tmp_path / "2" / "t-0", data)
    same = compare(one, other)["t", 0]
    assert same.is_clean
    assert [copy.records for copy in same.copies] == [6, 6]
    assert [copy.last_epoch for copy in same.copies] == [None, None]
    shorter = partition(tmp_path / "3" / "t-0", data[: 3 * len(data) // 6])
    copies = compare(one, shorter)["t", 0].copies
    assert copies[1].difference is not None
    assert copies[1].difference.lacks_records == 3
    assert copies[1].past is None, "without epochs a follower goes back to its high watermark"


def test_compressed_old_messages_are_counted_and_zookeeper_knows_the_isr(tmp_path: Path) -> None:
    root = broker_case("2.8.2", "zkhist").unpack(tmp_path / "case")
    found = compare(root)
    assert found.memory is not None
    assert "ZooKeeper" in found.memory
    several = [each for each in found.partitions if len(each.copies) > 1]
    assert several
    assert all(each.replica_state is not None for each in several)
    assert found.memory_problem is None
    log = max(each for each in root.rglob("log.*") if each.stat().st_size > 2000)
    content = bytearray(log.read_bytes())
    content[1000] ^= 1
    log.write_bytes(content)
    hurt = compare(root)
    assert (hurt.memory, "is not whole: error: zk_" in (hurt.memory_problem or "")) == (found.memory, True)
    assert f"ISRs may be older: {hurt.memory_problem}" in run("compare", root).out
    old = broker_case("0.10.2.2", "codecs").unpack(tmp_path / "old")
    (broker,) = old.glob("broker-*")
    shutil.copytree(broker, old / "other")
    expected = len(broker_case("0.10.2.2", "codecs").expected("read_uncommitted"))
    counted = sum(each.copies[0].records for each in compare(broker, old / "other").partitions)
    assert counted >= expected > 0


# -- the command -------------------------------------------------------------------------------------------------------


def of_kind(finished: Finished, kind: str) -> list[dict[str, object]]:
    return [each for each in finished.objects if each["kind"] == kind]


def test_its_prose_is_wrapped_to_the_width_of_the_terminal(volumes: dict[int, Path]) -> None:
    out = run("compare", *volumes.values(), columns=80).out
    wide = [line for line in out.splitlines() if len(line) > 80 and " " in line.strip().removesuffix(" \\")]
    assert wide == []
    (end,) = [line for line in out.splitlines() if line.endswith("/broker-3")]
    assert "They can be written under another name:\n  kafkalog replay" in out.partition(end)[0]
    assert "The best copy is" in " ".join(out.split())


def test_the_command(volumes: dict[int, Path]) -> None:
    finished = run("compare", *volumes.values())
    assert finished.code == 1
    paragraph = next(line for line in finished.out.splitlines() if line.startswith("tale-0: "))
    assert f"The best copy is that of broker {NEW}" in paragraph
    assert f"Broker {OLD} diverges: both have leader epoch 0 up to offset 90 in common" in paragraph
    assert "40 records are its own" in paragraph
    assert f"Broker {BEHIND} lacks 60 records" in paragraph
    assert finished.out.splitlines()[-1] == "2 of 5 partitions are equal and complete; 3 are not"
    assert run("compare", *volumes.values(), "--topic", "equal").code == 0
    lines = run("compare", "--json", *volumes.values())
    assert [each["topic"] for each in of_kind(lines, "partition")] == [
        "__cluster_metadata", "alone", "cleaned", "equal", "tale",
    ]  # fmt: skip
    (summary,) = of_kind(lines, "summary")
    assert (summary["partitions"], summary["partitions_not_clean"], summary["damaged_copies"]) == (5, 3, 0)
    assert lines.code == 1


def test_the_command_names_damage(volumes: dict[int, Path]) -> None:
    log = log_of(volumes[OLD], "equal")
    flip(log, 2)
    finished = run("compare", *volumes.values(), "--topic", "equal")
    assert finished.code == 1
    assert f"Broker {OLD} is damaged: crc_mismatch in {log} at byte" in finished.out
    assert "sound records come after it" in finished.out


def test_reading_is_told_once(volumes: dict[int, Path], measured: Callable[[str, int], None]) -> None:
    seen: list[int] = []
    compare(*volumes.values(), on_read=seen.append)
    size = sum(path.stat().st_size for volume in volumes.values() for path in volume.glob("*/*.log"))
    assert sum(seen) == size
    measured("bytes of logs compared", size)


def test_a_log_start_behind_the_end_is_a_finding_and_hides_nothing(volumes: dict[int, Path]) -> None:
    (volumes[BEHIND] / "log-start-offset-checkpoint").write_text("0\n1\ntale 0 99999999\n")
    copy = by_broker(compare(*volumes.values()), "tale")[BEHIND]
    assert [finding.code for finding in copy.findings] == [FindingCode.LOG_END_BELOW_LOG_START]
    assert copy.log_end_offset == 60
    assert not copy.diverges
    assert copy.difference is not None
    assert copy.difference.lacks_records == 60


def test_a_log_that_ends_below_its_high_watermark_is_a_finding_though_all_copies_do(volumes: dict[int, Path]) -> None:
    for volume in volumes.values():
        log_of(volume, "equal", 1).write_bytes(b"")
    equal = compare(*volumes.values())["equal", 0]
    assert {finding.code for finding in equal.findings} == {FindingCode.LOG_END_BELOW_HIGH_WATERMARK}
    assert not equal.is_clean


def test_a_partition_of_a_volume_that_was_given_too_is_one_copy(volumes: dict[int, Path]) -> None:
    found = compare(volumes[OLD], volumes[OLD] / "equal-0", volumes[NEW])
    assert found.findings == []
    assert len(found["equal", 0].copies) == 2


@pytest.mark.parametrize("start", [205, 211, 300])
def test_a_copy_whose_wrong_log_start_hides_its_records_is_not_the_best(tmp_path: Path, start: int) -> None:
    """A broker that moves a log start moves the leader epochs with it, and these begin at 0."""
    (source,) = brokers("4.1.1/txn")
    whole, hidden = (copy_tree(source, tmp_path / name / "data") for name in ("whole", "hidden"))
    (hidden / "log-start-offset-checkpoint").write_text(f"0\n1\ntrades-41 0 {start}\n")
    for volumes in ((whole, hidden), (hidden, whole)):
        found = compare(*volumes)["trades-41", 0]
        assert found.best is not None
        assert found.best.path == str(whole / "trades-41-0")
        assert found.why == "no copy is longer, and its log start offset hides none of its records"
    merged = run("merge", hidden, whole, "--into", tmp_path / "merged", "--topic", "trades-41")
    assert merged.code == 0, merged.err
    shown = run("dump", "--json", "--topic", "trades-41", tmp_path / "merged").objects
    expected = expected_records(broker_case("4.1.1", "txn"), "read_uncommitted")
    assert [record["offset"] for record in shown] == sorted(key[2] for key in expected if key[0] == "trades-41")
