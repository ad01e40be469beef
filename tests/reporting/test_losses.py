"""What `report` says is lost: permanently, by a simple start, and by recoveries before; one count, one time each."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery import plan
from kafkalog.recovery.act.journal import Journal
from testkit.made.batches import batch, record
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import recovery_cases
from testkit.running.command import kafkalog
from testkit.running.page import parsed, table_named

HOUR = 3_600_000
START = 1_600_000_000_000  # 2020-09-13 12:26:40Z
RECORDS = 3
IDS = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\ndirectory.id={}\n"


def timed(number: int) -> bytes:
    """Batch `number` of three records, written within two minutes of its hour."""
    records = [record(delta, timestamp_delta=60_000 * delta) for delta in range(RECORDS)]
    begins = START + number * HOUR
    return batch(b"".join(records), RECORDS, base_offset=number * RECORDS, base_timestamp=begins,
                 max_timestamp=begins + 120_000)  # fmt: skip


def log_directory(path: Path, topic: str, damaged: int, high_watermark: int) -> Path:
    """A log directory with one partition of five batches, one of which is damaged, and a sound one."""
    path.mkdir()
    (path / "meta.properties").write_text(IDS.format(path.name.ljust(21, "A") + "A"))
    (path / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {high_watermark}\n")
    for name, hurt in ((f"{topic}-0", damaged), (f"{topic}-1", None)):
        (path / name).mkdir()
        (path / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic.ljust(21, 'A')}A\n")
        batches = [bytearray(timed(number)) for number in range(5)]
        if hurt is not None:
            batches[hurt][-12:] = bytes(each ^ 0xA5 for each in batches[hurt][-12:])
        (path / name / f"{0:020d}.log").write_bytes(b"".join(batches))
    return path


@pytest.fixture
def volumes(tmp_path: Path) -> list[Path]:
    return [log_directory(tmp_path / "one", "orders", 1, 15), log_directory(tmp_path / "two", "bills", 3, 15)]


def markdown(*paths: Path) -> str:
    return kafkalog("report", *paths, "-o", "-", "--format", "md").out.replace("\\", "").replace("\u200b", "")


def test_what_is_lost_is_told_with_partition_offsets_and_times_once(volumes: list[Path]) -> None:
    text = markdown(*volumes)
    one, two = volumes
    first = "between 2020-09-13 12:28:40Z and 2020-09-13 14:26:40Z"
    later = "between 2020-09-13 14:28:40Z and 2020-09-13 16:26:40Z"
    rows = [
        f"| orders-0 in {one} | 3 (offsets 3 to 5) | 12 (offsets 3 to 14) | {first} | 1 |",
        f"| bills-0 in {two} | 3 (offsets 9 to 11) | 6 (offsets 9 to 14) | {later} | 1 |",
    ]  # of three records the damage begins with the last byte of the second
    assert [line for line in text.splitlines() if "-0 in " in line and line.startswith("| ")] == rows
    page = parsed(kafkalog("report", *volumes, "-o", "-").out)
    cells = [[cell.text for cell in row.all("td")] for row in table_named(page, "Lost records").all("tr")[1:]]
    assert cells == [row.strip("| ").split(" | ") for row in rows]
    assert "- Lost in all copies: 6 records\n- By a simple start: 18 records, of which 12 records can" in text
    verdict = "drop 12 records that can still be read, 18 records in all; 6 records cannot be had back."
    assert verdict in text.split("\n")[2]
    for moment in (first, later):
        damage = [line for line in text.splitlines() if line.startswith("| error")]
        assert sum(moment in line for line in damage) == 1, "the window of the finding is that of the table"
        assert sum(moment in found for found in kafkalog("verify", *volumes).err.splitlines()) == 1
    assert "| severity | code | place | offsets and times | what |" in text


def test_a_time_that_no_sound_batch_tells_is_that_of_the_header(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "one", "orders", 4, 15)
    written = "2020-09-13 16:26:40Z to 2020-09-13 16:28:40Z by its header"
    assert f"| orders-0 | 3 (offsets 12 to 14) | 3 (offsets 12 to 14) | {written} | 1 |" in markdown(root)
    text = kafkalog("report", root, "-o", "-", "--format", "text").out
    assert text.startswith(f"damaged: {root}\n")
    said = " ".join(text.split())
    assert f"written {written}; 1 can be shown (explain --records)" in said


def test_records_are_counted_as_verify_counts_them(volumes: list[Path]) -> None:
    reports = [each for line in kafkalog("verify", "--json", *volumes).objects for each in line["partitions"]]
    read = sum(each["records"] for each in reports)
    behind = sum(each["sound_records_behind_damage"] for each in reports)
    assert (read, behind) == (3 + 15 + 9 + 15, 9 + 3)
    assert f", {read + behind} records, {behind} of them after damage, where no consumer gets;" in markdown(*volumes)


def test_a_marker_is_no_record(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    marker = batch(record(0, b"\0\0\0\1", b"\0\0\0\0\0\0"), 1, base_offset=3, attributes=0x30, producer_id=7,
                   producer_epoch=0)  # fmt: skip
    (directory / f"{0:020d}.log").write_bytes(timed(0) + marker)
    assert kafkalog("verify", "--json", directory).objects[0]["partitions"][0]["records"] == 3
    assert ", 3 records; " in markdown(directory)


def test_after_a_salvage_each_run_says_what_it_lost(volumes: list[Path]) -> None:
    finished = kafkalog("recover", "--mode", "salvage", "--yes", *volumes)
    assert finished.code == 2
    assert "27 records are kept; 3 are lost (orders-0: offsets 3 to 5)" in finished.out
    text = markdown(*volumes)
    assert "Clean: " in text
    verdict = "nothing that was compared contradicts anything else; 2 earlier recoveries have lost 6 records."
    assert verdict in text.split("\n")[2]
    assert "- Lost: nothing more, as far as the logs themselves tell\n" in text
    runs = {path: kafkalog("runs", "--json", path).objects[0]["runs"] for path in volumes}
    for path, partition, first, last in ((volumes[0], "orders-0", 3, 5), (volumes[1], "bills-0", 9, 11)):
        (run,) = runs[path]
        assert run["lost"] == [
            {"partition": partition, "records_lost": 3, "records_lost_is_exact": True,
             "offsets_lost": [{"partition": partition, "first": first, "last": last}]}
        ]  # fmt: skip
        told = f"3 records, by run {run['run_id']} (salvage): {partition}: offsets {first} to {last}"
        assert f"- Lost before in {path}: {told}\n" in text
        lost = rf"3 \(offsets {first} to {last}\), by run {run['run_id']}"
        row = rf"\| {partition} in {path} \| {lost} \|  \| between "
        assert re.search(row, text)
    assert ", 54 records; " in text
    kafkalog("undo", "--yes", volumes[0])
    assert "an earlier recovery has lost 3 records" in markdown(*volumes), "what was undone is not lost"


def test_what_a_recovery_has_lost_is_not_lost_again_by_a_start(tmp_path: Path) -> None:
    """The high watermark in the checkpoint shows the loss again after the recovery; a start then changes nothing."""
    root = log_directory(tmp_path / "one", "orders", 4, 15)
    (root / "replication-offset-checkpoint").write_text("0\n1\norders 0 15\n")
    before = markdown(root)
    assert "by the way that is recommended (safe): orders-0: offsets 12 to 14" in before
    assert "- By a simple start: " in before
    assert kafkalog("recover", "--yes", root).code == 2
    text = markdown(root)
    assert "an earlier recovery has lost 3 records." in text.split("\n")[2]
    assert "cannot be had back" not in text
    assert "- Lost: nothing more, as far as the logs themselves tell\n- Lost before: 3 records, by run " in text
    assert "- By a simple start: " not in text
    assert len([line for line in text.splitlines() if line.startswith("| orders-0 |")]) == 1
    shutil.rmtree(tmp_path / "one.recovery")
    text = markdown(root)
    assert "- Lost: 3 offsets or more" in text
    assert "- By a simple start: " not in text
    assert re.search(r"\| orders-0 \| 3\+ offsets \(offsets 12 to 14.*\) \| none \| after ", text)


def test_a_recovery_of_an_earlier_version_did_not_note_what_it_lost(volumes: list[Path]) -> None:
    path = volumes[0]
    assert kafkalog("recover", "--mode", "salvage", "--yes", path).code == 2
    (run,) = kafkalog("runs", "--json", path).objects[0]["runs"]
    manifest = Path(run["directory"]) / "manifest.json"
    journal = Journal.decode(manifest.read_bytes(), str(manifest))
    values = json.loads(journal.encode())["journal"]
    del values["lost"]
    body = json.dumps(values).encode()
    manifest.write_bytes(b'{"crc32c": "%08x", "journal": ' % crc32c(body) + body + b"}\n")
    (run,) = kafkalog("runs", "--json", path).objects[0]["runs"]
    assert (run["state"], run["lost"]) == ("finished", None)
    page = parsed(kafkalog("report", path, "-o", "-").out)
    assert "not noted" in [cell.text for cell in table_named(page, f"Recoveries of {path}").all("td")]


def test_a_header_in_overwritten_bytes_tells_no_time(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "broker")
    log = root / "trades-41-0" / f"{86:020d}.log"
    data = bytearray(log.read_bytes())
    data[4096:8192] = bytes(4096)  # the batch at 4071 has its timestamps there
    log.write_bytes(data)
    for shown in (markdown(root), kafkalog("plan", root).out):
        assert "1970" not in shown
        assert "2021-07-14" in shown


def test_a_partition_that_the_start_empties_is_affected_and_lost(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "broker")
    (other,) = brokers("4.1.1/crash")
    shutil.rmtree(root / "sensors-22-0")
    shutil.copytree(other / "metrics-21-1", root / "sensors-22-0")
    text = markdown(root)
    assert "- Affected: sensors-22-0" in text
    beside = "all or part of 1 partition (sensors-22-0), by the broker's next start, recovered or not"
    assert f"- Lost beside these logs: {beside}\n" in text
    assert "no record, as far as the logs themselves tell" not in text


def test_a_number_from_offsets_is_no_lower_bound(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "broker")
    for path in (root / "trades-41-0").iterdir():
        if path.stem.isdigit() and int(path.stem) > 86:
            path.unlink()
    text = markdown(root)
    assert "about" in text
    assert "at least" not in text


@pytest.mark.parametrize("name", ["swap-far", "swap-far-last-segment"])
def test_what_a_simple_start_hides_is_told(name: str, tmp_path: Path) -> None:
    """Kafka's own recovery keeps batches after higher offsets, which no consumer gets; the plan counts them."""
    (case,) = (each for each in recovery_cases(["offset_order"]) if each.name == name)
    root = case.unpack_before(tmp_path / "data")
    reached, hidden = -1, 0
    for log in sorted((root / "t-0").glob("*.log")):
        with FileSource(str(log)) as source:
            for each in Scanner(source):
                hidden += len(range(each.header.first_offset, min(reached, each.header.last_offset) + 1))
                reached = max(reached, each.header.last_offset)
    assert plan(root)[0].choice.kafka_by_partition["t-0"].records_hidden == hidden > 0
    text = " ".join(markdown(root).split())
    skipped = f"{hidden} records on disk that readers skip"
    assert f"- By a simple start: no record; {skipped} " in text
    assert f"| t-0 | none; {skipped} | none; {skipped} |" in text


def test_segments_under_wrong_names_of_another_partition_restore_nothing(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "one", "orders", 1, 15)
    (root / "orders-1" / f"{0:020d}.log").unlink()
    for number, base in ((0, 0), (1, 6), (2, 3), (3, 9)):
        (root / "orders-1" / f"{base:020d}.log").write_bytes(timed(number))
    page = parsed(kafkalog("report", root, "-o", "-").out)
    rows = [[cell.text for cell in row.all("td")] for row in table_named(page, "Lost records").all("tr")[1:]]
    lost = {row[0]: row[1] for row in rows}
    assert lost["orders-0"] == "3 (offsets 3 to 5)"
    assert lost["orders-1"].endswith("unless their segments get their names back (segment_misnamed)")
