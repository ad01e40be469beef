"""`plan` and `recover` name `undelete` where deleted data stands that nothing else holds; elsewhere they do not."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.decide.deleted_data import DeletedPartitions, different_records
from kafkalog.words.outlook import removed_sentence
from testkit.made.tens import flip, log_of_tens
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

GONE = f"orders-23-0.{'0' * 32}-delete"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    recover(Recovery(full=True, accept_loss=True), root)
    assert plan(root)[0].deleted is None
    return root


def note(root: Path) -> str | None:
    """What is said, the same in text and JSON, and without a word about the exit code."""
    (line,) = kafkalog("plan", "--json", root).objects
    said = line["deleted"]
    printed = [each for each in kafkalog("plan", root).out.splitlines() if each.startswith("note: ")]
    assert printed == ([] if said is None else [f"note: {said}"])
    assert plan(root)[0].deleted == said
    return None if said is None else str(said)


def delete_segment(directory: Path, number: int) -> None:
    base = sorted(directory.glob("*.log"))[number].stem
    for path in directory.glob(f"{base}.*"):
        path.rename(path.with_name(path.name + ".deleted"))


def test_a_deleted_partition(root: Path) -> None:
    (root / "orders-23-0").rename(root / GONE)
    said = note(root)
    assert said is not None
    assert said.startswith(
        f"deleted, but still on disk, and held by nothing else here: {GONE}; `kafkalog undelete {root}`"
    )
    (partition,) = (each for each in plan(root)[0].partitions if each.name == GONE)
    assert partition.log_end_offset is None, "nobody opens its log, so it ends nowhere"
    assert said in kafkalog("recover", "--yes", root).out
    assert kafkalog("undelete", root).code == 0
    assert "orders-23" in kafkalog("undelete", root).out


def create_again(root: Path) -> None:
    """Add a `-delete` directory with all of a partition's records, of an older topic with its name."""
    shutil.copytree(root / "orders-23-0", root / GONE)
    (root / GONE / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")


def test_a_topic_that_was_created_again_does_not_hold_it(root: Path) -> None:
    create_again(root)
    said = note(root)
    assert said is not None
    assert GONE in said


def test_the_first_screen_and_the_end_say_that_a_start_removes_deleted_partitions(root: Path) -> None:
    """Real brokers removed such directories a minute after their start; no run keeps them, so `undo` has nothing."""
    create_again(root)
    (listed,) = kafkalog("undelete", "--json", root).objects
    records = sum(remains["records"] for remains in listed["remains"] if remains["path"].endswith(GONE))
    keeps = f"kafkalog undelete {root} --topic orders-23 --hold --yes"
    removes = f"removes {records} records in 1 -delete directory, of partitions that were deleted; to keep them, first:"
    assert kafkalog("verify", root).code == 0, "a deletion was asked for"
    report = root.parent / "report.txt"
    kafkalog("report", root, "-o", report)
    for text in (kafkalog("plan", root).out, report.read_text()):
        screen, _, below = text.replace(" \\\n", " ").partition("\n\n")
        short = f"\na start removes {records} deleted records of orders-23; to keep them: below\n"
        assert screen.index("lost with this plan") < screen.index(short), "what nobody wants comes after what is lost"
        assert f"a start {removes} {keeps}" in " ".join(below.split())
    for index in root.glob("*-0/*.timeindex"):
        index.write_bytes(b"")
    ended = kafkalog("recover", "--yes", root).out.partition("\nrecovered ")[2].replace(" \\\n", " ")
    assert f"changes only what was deleted; a start {removes} {keeps} " in " ".join(ended.split())
    assert "changes nothing" not in ended
    assert kafkalog(*shlex.split(keeps)[1:]).code == 2
    assert not list(root.glob("*-delete"))
    assert "-delete" not in kafkalog("plan", root).out


def test_copies_of_several_brokers_count_once() -> None:
    def deleted(root: str, **records: int) -> DeletedPartitions:
        counts = {f"{name.replace('_', '-')}.{root}-delete": count for name, count in records.items()}
        return DeletedPartitions(directories=tuple(counts), records_by_directory=counts, roots=(f"/{root}",))

    several = [deleted("a" * 32, t_0=10, t_1=5), deleted("b" * 32, t_0=8, t_2=1)]
    assert different_records(several) == (16, 2)
    assert different_records([several[0], structs.replace(several[1], roots=several[0].roots)]) == (24, 1)
    told = removed_sentence({"/a": several[0], "/b": several[1]})
    assert told.startswith("a start removes 16 records, of which 2 brokers have copies, in 4 -delete directories, ")


def test_deleted_partitions_are_held_beside_deleted_segments_of_the_live_one(root: Path) -> None:
    create_again(root)
    delete_segment(root / "orders-23-0", 0)
    held = kafkalog("undelete", root, "--topic", "orders-23", "--hold", "--yes")
    assert held.code == 2
    assert "stays deleted: orders-23-0 is live" in words(held.out)
    assert not list(root.glob("*-delete"))
    assert kafkalog("undelete", root, "--topic", "orders-23", "--hold", "--yes").code == 3


def test_a_partition_that_was_moved_is_held_by_the_live_one(root: Path) -> None:
    shutil.copytree(root / "orders-23-0", root / GONE)
    assert note(root) is None


@pytest.fixture
def moved(root: Path) -> tuple[Path, Path]:
    """Two log directories of a broker, as a finished move of orders-23-0 from the first to the second leaves them: the
    second has the directory id that the metadata of the first names.
    """
    other = root.with_name("other")
    other.mkdir()
    meta = (root / "meta.properties").read_text()
    (other / "meta.properties").write_text(meta)
    (root / "meta.properties").write_text(re.sub("directory.id=.*", "directory.id=AAAAAAAAAAAAAAAAAAAAIg", meta))
    shutil.copytree(root / "orders-23-0", other / "orders-23-0")
    (root / "orders-23-0").rename(root / GONE)
    return root, other


def test_the_live_log_in_another_log_directory_has_all(moved: tuple[Path, Path]) -> None:
    """4.1.1 removed the old copy of such a move and served the log; it did not start after the copy was put back."""
    assert all(each.deleted is None for each in plan(*moved))
    assert "-delete" not in kafkalog("plan", *moved).out
    held = kafkalog("undelete", *moved, "--topic", "orders-23", "--hold", "--yes")
    assert held.code == 3
    assert f"{GONE} is an old copy left by a finished move; the log is {moved[1]}/orders-23-0" in held.err
    assert kafkalog("undelete", *moved, "--topic", "orders-23", "--yes").code == 3
    assert (moved[0] / GONE).is_dir()


@pytest.mark.parametrize("what", ["torn", "damaged", "other topic"])
def test_the_live_log_in_another_log_directory_lacks_something(what: str, moved: tuple[Path, Path]) -> None:
    live = moved[1] / "orders-23-0"
    logs = sorted(live.glob("*.log"))
    if what == "torn":
        logs[-1].write_bytes(logs[-1].read_bytes()[:-1])
    elif what == "damaged":
        data = bytearray(logs[0].read_bytes())
        data[80] ^= 1
        logs[0].write_bytes(data)
    else:
        (live / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    said = kafkalog("plan", *moved).out.replace("\\\n", " ")
    said = " ".join(said.split())
    assert "in 1 -delete directory" in said
    keeps = f"kafkalog undelete {moved[0]} {moved[1]} --topic orders-23 --hold --yes"
    assert keeps in said
    assert kafkalog(*shlex.split(keeps)[1:]).code == 2


def test_the_metadata_places_the_log_in_a_directory_that_was_not_given(moved: tuple[Path, Path]) -> None:
    root, other = moved
    (said,) = (each.deleted for each in plan(root))
    assert said is not None
    assert said.startswith(f"probably old copies left by finished moves: {GONE}; the metadata places the logs in")
    assert "a start removes" not in kafkalog("plan", root).out
    (listed,) = kafkalog("undelete", "--json", root).objects
    (why_not,) = (each["why_not"] for each in listed["remains"] if each["path"].endswith(GONE))
    declined = kafkalog("undelete", root, "--topic", "orders-23", "--yes")
    assert declined.code == 3
    for text in (str(why_not), declined.err):
        assert "the metadata places orders-23-0 in another log directory of this broker" in text
    shutil.rmtree(other / "orders-23-0")
    assert kafkalog("undelete", *moved, "--topic", "orders-23", "--yes").code == 2, "no log is there"


def test_one_without_a_record(root: Path) -> None:
    (root / "orders-23-0").rename(root / GONE)
    for log in (root / GONE).glob("*.log"):
        log.write_bytes(b"")
    assert note(root) is None


def test_segments_that_retention_took(root: Path) -> None:
    delete_segment(root / "orders-23-0", 0)
    delete_segment(root / "stock-41-0", 0)
    delete_segment(root / "stock-41-0", 0)
    said = note(root)
    assert said is not None
    assert "1 .deleted segment in orders-23-0, 2 .deleted segments in stock-41-0; " in said


def cut_off(root: Path, partition: str = "orders-23-0") -> tuple[int, int]:
    """Leave a partition as a start does that truncates it before its last segment and is killed, with checkpoints that
    know no more; return the first offset of that segment and the log end offset before.
    """
    (report,) = kafkalog("verify", "--json", root).objects
    (end,) = (each["log_end_offset"] for each in report["partitions"] if each["path"].endswith(partition))
    first = int(max((root / partition).glob("*.log")).stem)
    delete_segment(root / partition, -1)
    for path in (root / partition).glob(f"{end:020}.snapshot"):
        path.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (root / name).write_text("0\n0\n")
    return first, end


def screen_of(text: str) -> str:
    return words(text.replace(" \\\n", " ").partition("\n\n")[0])


def test_segments_beyond_the_end_which_a_truncation_removed(root: Path) -> None:
    """Real 4.1.1 left such files when it was killed within a minute of `truncateTo`; its next start removed them."""
    first, end = cut_off(root)
    sound = next((root / "orders-23-0").glob("*.log.deleted")).read_bytes()
    verified = kafkalog("verify", root)
    assert verified.code == 1
    assert f"deleted_beyond_end ({root}/orders-23-0/{first:020}.log.deleted, offset {first})" in verified.err
    offsets = f"offsets {first} to {end - 1}"
    holds = f"{end - first} records in 1 deleted segment beyond the end of 1 log (orders-23-0: {offsets})"
    extract = f"kafkalog undelete {root} --topic orders-23 --into {root}.undeleted-orders-23"
    report = root.parent / "report.txt"
    assert kafkalog("report", root, "-o", report).code == 1
    for text in (kafkalog("plan", root).out, report.read_text()):
        screen = screen_of(text)
        said = f"a start removes {holds}, which a truncation removed; to keep them, first: {extract}"
        before, _, after = screen.partition(said)
        assert after
        assert "lost with this plan: nothing" in after
        assert "type this" not in before
    listed = kafkalog("undelete", root)
    assert f"{offsets}, and the log ends at {first}: a truncation removed them; " in words(listed.out)
    assert f"to extract what is not restored of orders-23: {extract}" in words(listed.out.replace(" \\\n", " "))
    for option in ("--hold", "--yes"):
        refused = kafkalog("undelete", root, "--topic", "orders-23", option)
        assert refused.code == 3
        assert f"to extract what is not restored of orders-23: {extract}" in words(refused.err.replace(" \\\n", " "))
    assert kafkalog(*shlex.split(extract)[1:]).code == 0
    assert joined(root.parent / f"{root.name}.undeleted-orders-23" / "orders-23-0") == sound
    shutil.rmtree(root.parent / f"{root.name}.undeleted-orders-23")

    recovered = kafkalog("recover", "--yes", root).out
    assert f"a start removes {holds}" in screen_of(recovered)
    ended = words(recovered.partition("\nrecovered ")[2].replace(" \\\n", " "))
    run = max(path.name for path in (root.parent / f"{root.name}.recovery").iterdir())
    of_run = extract.replace("--into", f"--source {run} --into")
    assert f"`.deleted` files there hold {holds}, to be extracted by this: {of_run} " in ended
    assert kafkalog(*shlex.split(of_run)[1:]).code == 0
    assert joined(root.parent / f"{root.name}.undeleted-orders-23" / "orders-23-0") == sound
    assert kafkalog("verify", root).code == 0


def test_segments_that_the_log_has_again_are_not_beyond_its_end(root: Path) -> None:
    """A follower that truncates, and fetches the offsets again, leaves `.deleted` segments of records that it has."""
    log = max((root / "orders-23-0").glob("*.log"))
    shutil.copy(log, log.with_name(log.name + ".deleted"))
    delete_segment(root / "stock-41-0", 0)
    assert kafkalog("verify", root).code == 0
    assert "deleted_beyond_end" not in kafkalog("plan", "--json", root).out


def test_segments_of_which_the_log_has_a_part_again(root: Path) -> None:
    """Only what lies beyond the end counts: the log went on from the truncation, and other records have the offsets."""
    first, end = cut_off(root)
    log = next((root / "orders-23-0").glob("*.log.deleted"))
    batches = list(Scanner(BufferSource(log.read_bytes())))
    assert len(batches) > 1
    log.with_name(f"{first:020}.log").write_bytes(log.read_bytes()[: batches[1].position])
    (line,) = kafkalog("plan", "--json", root).objects
    (finding,) = (each for each in line["findings"] if each["code"] == "deleted_beyond_end")
    again = batches[1].first_offset
    said = f"holds {end - again} records with offsets {again} to {end - 1}, and the log ends at {again}"
    assert said in finding["detail"]


def test_copies_of_a_log_that_is_merely_short(root: Path) -> None:
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    assert "copy_has_more" not in kafkalog("plan", root, "--copy", copy, "--json").out
    first, end = cut_off(root)
    for path in (root / "orders-23-0").glob("*.deleted"):
        path.unlink()
    assert "which this log lacks" not in kafkalog("plan", root).out
    said = f"a copy of orders-23-0 has offsets {first} to {end - 1}, which this log lacks"
    compares = f"kafkalog compare {root}/orders-23-0 {copy}/orders-23-0"
    planned = kafkalog("plan", root, "--copy", copy).out.replace(" \\\n", " ")
    assert said in screen_of(planned)
    assert f"{said}: {compares}" in words(planned)
    compared = kafkalog(*shlex.split(compares)[1:])
    lacks = f" lacks {end - first} records that {copy}/orders-23-0 has, the first at offset {first}"
    assert lacks in words(compared.out)
    (copy / "orders-23-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    assert "which this log lacks" not in kafkalog("plan", root, "--copy", copy).out


@pytest.mark.parametrize(("byte", "batch"), [(1, 4), (1, 2), (5, 2)])
def test_a_wrong_base_offset_of_a_copy_is_not_an_offset_that_the_log_lacks(
    byte: int, batch: int, tmp_path: Path
) -> None:
    """No checksum covers it: far beyond the segment, or contradicted by the batches after it."""
    log_of_tens(tmp_path / "data", 5)
    (copy,) = log_of_tens(tmp_path / "copy", 5)
    flip(copy, (batch, byte, 1))
    assert "which this log lacks" not in kafkalog("plan", tmp_path / "data", "--copy", tmp_path / "copy").out


def test_a_merge_is_offered_for_a_log_that_is_merely_short(root: Path) -> None:
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    sound = joined(root / "orders-23-0")
    first, end = cut_off(root)
    for path in (root / "orders-23-0").glob("*.deleted"):
        path.unlink()
    command = ["kafkalog", "plan", str(root), "--copy", str(copy)]
    merges = ["kafkalog", "recover", str(root), "--mode", "merge", "--copy", str(copy), "--yes"]
    assert printed_by(command) == [merges]
    planned = kafkalog(*command[1:])
    assert planned.code == 1
    assert "without --mode merge if the log was truncated to agree with its leader" in screen_of(planned.out)
    assert "nothing to do" not in planned.out
    lacked = f"{end - first} records that the log lacks, from offset {first} on"
    come = f"orders-23-0: {lacked}, come from {copy}/orders-23-0"
    again = kafkalog(*command[1:], "--mode", "merge", "--all")
    assert come in screen_of(again.out)
    assert "not needed" not in again.out
    (line,) = (line.split() for line in again.out.splitlines() if line.startswith("orders-23-0 "))
    assert line[1:4] == [str(end), f"{len(sound) / 1024:.1f}", "KiB"]
    recovered = kafkalog(*merges[1:])
    assert recovered.code == 2
    assert come in words(recovered.out.partition("\nrecovered ")[2])
    assert joined(root / "orders-23-0") == sound
    assert not printed_by(command)


def test_no_merge_is_offered_with_a_copy_of_another_lineage(root: Path) -> None:
    """The leader of a later epoch wrote other records at the end of what is left: `merge` would not put them in."""
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    cut_off(root)
    partition = root / "orders-23-0"
    for path in partition.glob("*.deleted"):
        path.unlink()
    log = max(partition.glob("*.log"))
    data = bytearray(log.read_bytes())
    for batch in Scanner(BufferSource(bytes(data))):
        data[batch.position + 12 : batch.position + 16] = (9).to_bytes(4, "big")  # its checksum does not cover it
    log.write_bytes(data)
    (partition / "leader-epoch-checkpoint").write_text(f"0\n2\n0 135\n9 {int(log.stem)}\n")
    planned = kafkalog("plan", root, "--copy", copy)
    assert planned.code == 1
    assert "which this log lacks" in screen_of(planned.out)
    assert "--mode merge" not in planned.out
    compared = kafkalog("compare", partition, copy / "orders-23-0")
    assert "diverge" in compared.out


def test_a_merge_leaves_out_an_older_log_of_the_transaction_coordinator(tmp_path: Path) -> None:
    """Both logs were made again, empty: groups get the copy's commits, and transactional ids new producer ids."""
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "broker")
    recover(Recovery(full=True, accept_loss=True), root)
    shutil.copytree(root, tmp_path / "copy")
    emptied = [max(root.glob(f"{topic}-*"), key=lambda path: len(joined(path)))
               for topic in ("__transaction_state", "__consumer_offsets")]  # fmt: skip
    for partition in emptied:
        for path in partition.iterdir():
            if path.name != "partition.metadata":
                path.write_bytes(b"") if path.suffix == ".log" else path.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (root / name).write_text("0\n0\n")
    command = ["kafkalog", "plan", str(root), "--copy", str(tmp_path / "copy")]
    planned = kafkalog(*command[1:])
    states, offsets = (partition.name for partition in emptied)
    assert f"a copy of {states} has offsets" in words(planned.out)
    assert f"a copy of {offsets} has offsets" in words(planned.out)
    assert "lacks; if merged, groups begin at these commits" in words(planned.out)
    (merges,) = printed_by(command)
    assert merges[3:5] == ["--exclude", "__transaction_state"]
    assert "all but those of __transaction_state (runbook: backup)" in screen_of(planned.out)
    recovered = kafkalog(*merges[1:])
    said = words(recovered.out.partition("\nrecovered ")[2])
    assert "groups then begin at their newest commits, also those of the copies" in said
    assert joined(emptied[1]) == joined(tmp_path / "copy" / offsets)
    assert not joined(emptied[0])


def test_a_segment_that_compaction_replaced(root: Path) -> None:
    log = min((root / "orders-23-0").glob("*.log"))
    shutil.copy(log, log.with_name(log.name + ".deleted"))
    assert note(root) is None


def printed(root: Path) -> list[list[str]]:
    """The words of the command lines on the first screen of `plan`."""
    return printed_by(["kafkalog", "plan", str(root)])


def printed_by(command: list[str]) -> list[list[str]]:
    """The words of the command lines on the first screen of a command."""
    screen = kafkalog(*command[1:]).out.replace(" \\\n", " ").split("\n\n")[0]
    return [shlex.split(line) for line in screen.splitlines() if line.startswith("  kafkalog ")]


def joined(directory: Path) -> bytes:
    return b"".join(log.read_bytes() for log in sorted(directory.glob("*.log")))


def words(text: str) -> str:
    return " ".join(text.split())


def test_replaced_segments_that_hold_what_is_lost(root: Path) -> None:
    sound = {}
    for partition in ("orders-23-0", "stock-41-0"):
        log = min((root / partition).glob("*.log"))
        sound[log] = log.read_bytes()
        shutil.copy(log, log.with_name(log.name + ".deleted"))
        log.write_bytes(bytes(len(sound[log])))
    said = note(root)
    assert said is not None
    assert "1 .deleted segment in orders-23-0, 1 .deleted segment in stock-41-0; " in said
    *extracts, ask_again = printed(root)
    assert len(extracts) == 2
    for extract in extracts:
        assert extract[1] == "undelete"
        assert kafkalog(*extract[1:]).code == 0
    again = kafkalog(*ask_again[1:])
    screen = again.out.replace(" \\\n", " ").split("\n\n")[0].splitlines()
    for line in (shlex.split(line) for line in screen if line.startswith("  kafkalog ")):
        assert kafkalog(*line[1:]).code == 2
    for log, data in sound.items():
        assert log.read_bytes().startswith(data)


def test_a_replaced_segment_that_holds_nothing_of_what_is_lost(root: Path) -> None:
    first, *_, last = sorted((root / "orders-23-0").glob("*.log"))
    shutil.copy(first, first.with_name(first.name + ".deleted"))
    last.write_bytes(bytes(last.stat().st_size))
    assert note(root) is None
    assert [words[1] for words in printed(root)] == ["recover"]


def test_a_log_of_which_all_segments_are_deleted(root: Path) -> None:
    """Real 4.1.1 began this log empty; `undelete` brought all records back, before a recovery and after it."""
    sound = joined(root / "orders-23-0")
    for path in (root / "orders-23-0").glob("0*"):
        if path.suffix != ".snapshot":
            path.rename(path.with_name(path.name + ".deleted"))
    untouched = root.parent / "untouched"
    shutil.copytree(root, untouched)
    report = root.parent / "report.txt"
    kafkalog("report", root, "-o", report)
    assert "cannot be had back, unless .deleted files have them (kafkalog undelete)" in words(report.read_text())
    *extracts, ask_again = printed(untouched)
    for extract in extracts:
        kafkalog(*extract[1:])
    for command in printed_by(ask_again):
        kafkalog(*command[1:])
    assert joined(untouched / "orders-23-0") == sound

    ended = kafkalog("recover", "--yes", root).out
    listing = f"kafkalog undelete {root}"
    assert f"`.deleted` files there have lost offsets of 1 partition (orders-23-0): {listing}" in words(ended)
    after = words(kafkalog("plan", root).out)
    assert f"what recoveries keep may have it, which `{listing}` lists" in after
    assert "kept by a recovery" in kafkalog(*shlex.split(listing)[1:]).out
    kafkalog("report", root, "-o", report, "--overwrite")
    assert "unless what a recovery keeps has them (kafkalog undelete)" in words(report.read_text())


@pytest.mark.parametrize("has_cleaned", [False, True])
def test_a_segment_that_a_swap_file_replaces_at_the_start(root: Path, *, has_cleaned: bool) -> None:
    """Kafka puts a `.swap` segment in place, unless a `.cleaned` file has its base offset or a lower one."""
    log = min((root / "orders-23-0").glob("*.log"))
    shutil.copy(log, log.with_name(log.name + ".deleted"))
    log.rename(log.with_name(log.name + ".swap"))
    if has_cleaned:
        shutil.copy(log.with_name(log.name + ".deleted"), log.with_name(log.name + ".cleaned"))
    said = note(root)
    assert ("1 .deleted segment in orders-23-0" in (said or "")) is has_cleaned
    finished = kafkalog("undelete", root, "--topic", "orders-23", "--yes")
    assert finished.code == (2 if has_cleaned else 3)
    assert ("the log begins at" in finished.err) is not has_cleaned
