"""`kafkalog dump --parquet` and `--arrow`: columns of Spark's names, whole or not at all, which `build` reads back."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog as library
from kafkalog.codec.columnar.schema import COLUMNS, DEFAULT_COLUMNS
from kafkalog.codec.rules.batch_fields import OF_RECORDS
from testkit.judging.executions import choose_execution
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import BrokerCase
from testkit.running.command import kafkalog

SOME = [case for case in STOPPED if case.id in ("4.1.1/txn", "4.1.1/codecs", "2.8.2/codecs", "0.10.2.2/segments")]
BROKER = brokers("4.1.1/txn")[0]
Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
    elif path.suffix == ".arrows":
        with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
            table = stream.read_all()
    else:
        with pa.OSFile(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    found: list[Row] = table.to_pylist()
    return found


def test_a_record_has_the_same_of_its_batch_as_a_column_and_as_a_word() -> None:
    of_columns = {"partitionLeaderEpoch" if name == "leaderEpoch" else name for name in COLUMNS}
    assert of_columns - set(DEFAULT_COLUMNS) == set(OF_RECORDS)


def as_json_line(row: Row) -> Row:
    def encoded(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    return {
        "topic": row["topic"], "partition": row["partition"], "offset": row["offset"],
        "key": encoded(row["key"]), "value": encoded(row["value"]),
        "headers": [[each["key"], encoded(each["value"])] for each in row["headers"] or []],
    }  # fmt: skip


def lines(broker: Path, *options: object) -> list[Row]:
    finished = kafkalog("dump", "--json", "--encoding", "base64", broker, *options)
    return [{name: line[name] for name in ("topic", "partition", "offset", "key", "value", "headers")}
            for line in finished.objects]  # fmt: skip


@pytest.mark.parametrize("enough", [0, 2**62], ids=["compiled", "readable"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.id)
def test_all_records_are_there(
    case: BrokerCase, suffix: str, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    for number, broker in enumerate(brokers(case.id)):
        out = tmp_path / f"{number}{suffix}"
        option = "--parquet" if suffix == ".parquet" else "--arrow"
        finished = kafkalog("dump", broker, option, out)
        assert (finished.code, finished.out, finished.err) == (0, "", "")
        found = rows(out)
        assert list(found[0]) == list(DEFAULT_COLUMNS)
        assert [as_json_line(row) for row in found] == lines(broker)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [suffix] * len(brokers(case.id))


@pytest.mark.parametrize("options", [
    ["-t", "sensors*"], ["-t", "sensors-0", "--offset", "5"], ["--key-regex", "^k"], ["--header", "trace"],
    ["--isolation-level", "read_committed"], ["--producer-id", "1"], ["-c", "17"], ["--since", "1626239955000"],
    ["-t", "sensors-0", "-o", "-3"], ["--all"], ["--transactional"], ["--start-offset", "4", "--end-offset", "9"],
    ["-t", "sensors-0", "-o", "e@1626239955000"],
], ids=" ".join)  # fmt: skip
def test_every_filter_holds(options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert kafkalog("dump", BROKER, "--parquet", out, *options).code == 0
    wanted = lines(BROKER, *options)
    assert wanted
    assert [as_json_line(row) for row in rows(out)] == wanted


def test_nothing_is_a_file_without_rows(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert kafkalog("dump", BROKER, "--parquet", out, "--key", "nobody has this").code == 0
    assert rows(out) == []
    assert pq.read_schema(out).names == list(DEFAULT_COLUMNS)


def test_metadata_is_more_columns(tmp_path: Path) -> None:
    out = tmp_path / "out.arrow"
    assert kafkalog("dump", BROKER, "-t", "sensors-0", "--arrow", out, "--metadata").code == 0
    shown = kafkalog("dump", BROKER, "-t", "sensors-0", "--json", "--metadata").objects
    names = ["producerId", "producerEpoch", "sequence", "isTransactional", "compresscodec", "magic", "baseOffset",
             "position"]  # fmt: skip
    assert [[row[name] for name in names] for row in rows(out)] == [[line[name] for name in names] for line in shown]
    assert [row["leaderEpoch"] for row in rows(out)] == [line["partitionLeaderEpoch"] for line in shown]


def test_redacted_columns(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with library.Log.open(tmp_path / "logs" / "t-0") as log:
        log.append([library.NewRecord(value=b"secret", key=b"secret", headers=[("name", b"secret")])])
    out = tmp_path / "out" / "x.parquet"
    out.parent.mkdir()
    assert kafkalog("dump", tmp_path / "logs", "--parquet", out, "--redact").code == 0
    (row,) = rows(out)
    assert row["key"] == row["value"] == row["headers"][0]["value"]
    assert row["key"].startswith(b"[6 bytes #")
    assert b"secret" not in out.read_bytes()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
def test_build_makes_the_same_records_of_it(suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"records{suffix}"
    option = "--parquet" if suffix == ".parquet" else "--arrow"
    chosen = ("-t", "sensors-0", "--isolation-level", "read_committed")
    assert kafkalog("dump", BROKER, option, out, *chosen).code == 0
    assert kafkalog("build", out, "--into", tmp_path / "data", "--keep-offsets").code == 0
    assert lines(tmp_path / "data") == lines(BROKER, *chosen) != []


def test_what_exists_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    out.write_bytes(b"mine")
    finished = kafkalog("dump", BROKER, "--parquet", out)
    assert finished.code == 64
    assert finished.err == f"kafkalog: {out} already exists; only a new file can be written\n"
    assert out.read_bytes() == b"mine"
    out.unlink()
    out.symlink_to(tmp_path / "nowhere")
    assert kafkalog("dump", BROKER, "--parquet", out).code == 64
    assert kafkalog("dump", BROKER, "--parquet", tmp_path / "no" / "out.parquet").code == 64


def test_nothing_is_written_into_a_log_directory(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    with library.Log.open(root / "t-0") as log:
        log.append([b"x"])
    (tmp_path / "link").symlink_to(root / "t-0")
    (root / "below").mkdir()
    for place in (root, root / "t-0", root / "below", tmp_path / "link"):
        before = sorted(place.iterdir())
        finished = kafkalog("dump", root, "--parquet", place / "out.parquet")
        assert finished.code == 64
        assert "which is a log directory or is being examined: choose another place" in finished.err
        assert sorted(place.iterdir()) == before
    volumes = tmp_path / "volumes"
    volumes.mkdir()
    root.rename(volumes / "data")
    finished = kafkalog("dump", volumes, "--parquet", volumes / "out.parquet")
    assert finished.code == 64
    assert list(volumes.iterdir()) == [volumes / "data"]


@pytest.mark.parametrize("options", [[], ["--metadata"], ["--redact"]], ids=" ".join)
def test_a_topic_that_is_no_text_is_refused(options: list[str], tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    for name in (b"t\xff-0", b"t-0"):
        with library.Log.open(root / "t-0") as log:
            log.append([b"x"])
        os.rename(root / "t-0", os.fsencode(root) + b"/" + name)
    out = tmp_path / "out.parquet"
    finished = kafkalog("dump", root, "--parquet", out, *options)
    assert finished.code == 64
    assert "is not UTF-8, so no column can hold its topic: leave it out with --exclude" in finished.err
    assert finished.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [root]
    assert kafkalog("dump", root, "--parquet", out, "--exclude", os.fsdecode(b"t\xff"), *options).code == 0
    assert [row["topic"] for row in rows(out)] == ["t"]


def test_an_error_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.parquet"
    monkeypatch.setattr("kafkalog.log.disk.fs.os.pwrite", _full_disk)
    finished = kafkalog("dump", BROKER, "--parquet", out)
    assert finished.code == 4
    assert "No space left on device" in finished.err
    assert finished.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def _full_disk(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"kafkalog.cli.dump.columns", "kafkalog.log.writing.columns_file"}
    for name in users & sys.modules.keys():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    finished = kafkalog("dump", BROKER, "--parquet", tmp_path / "out.parquet")
    assert finished.code == 64
    assert finished.err == (
        "kafkalog: dump --parquet needs the package pyarrow: install kafkalog[fast] (pip install 'kafkalog[fast]')\n"
    )
