"""An export that is killed at any moment and run again has every record once; so have two at the same time."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exporter
import kafkalog
from testkit.judging.table_rows import FORMATS, add, in_log, of_manifest, places, records, topic

every_format = pytest.mark.parametrize("format", FORMATS)


def started(data: Path, out: Path, format: str, *rest: str) -> subprocess.Popen[str]:
    command = [sys.executable, exporter.__file__, str(data), str(out), format, *rest]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n", made.communicate()[1]
    return made


def finished(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def whole(data: Path, out: Path, format: str) -> None:
    """Run it to its end: then each record is there once."""
    kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out, jobs=2)
    assert places(out, format) == in_log(data)
    if format == "parquet":
        assert len(of_manifest(out)) == len(in_log(data))
        assert not list(out.rglob("*.tmp"))


def killed(data: Path, out: Path, format: str, at: int) -> bool:
    """Whether it was before it ended."""
    process = started(data, out, format, str(at))
    process.communicate(timeout=300)
    return process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("format", ["parquet", pytest.param("delta", marks=pytest.mark.sweep)])
def test_killed_at_a_few_moments(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [250, 120]), tmp_path / "out"
    events = int(finished(started(data, tmp_path / "whole", format, "events")))
    kills = [killed(data, out, format, events * part // 100) for part in (30, 90)]
    assert any(kills)
    whole(data, out, format)


@pytest.mark.sweep
@every_format
def test_killed_at_a_hundred_random_moments(format: str, tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    """At events, and at moments between them; the log grows meanwhile, and most tables are of several killed runs."""
    chosen = random.Random(f"kills of {format}")
    data = topic(tmp_path / "data", [250, 120])
    begun = time.perf_counter()
    events = int(finished(started(data, tmp_path / "whole", format, "events")))
    seconds = time.perf_counter() - begun
    kills = number = 0
    while kills < 100:
        number += 1
        out = tmp_path / f"out-{number}"
        for _ in range(chosen.randint(1, 4)):
            if chosen.random() < 0.5:
                kills += killed(data, out, format, chosen.randint(1, events))
            else:
                process = started(data, out, format)
                time.sleep(chosen.random() * seconds / 2)
                process.kill()
                process.communicate()
                kills += process.returncode == -signal.SIGKILL
            with kafkalog.Log.open(data / "orders-0", kafkalog.LogConfig(segment_bytes=4000)) as log:
                add(log, records(7, log.end_offset))
        whole(data, out, format)
    measured(f"exports to {format} that were killed and repeated", kills)


@pytest.mark.sweep
@every_format
def test_two_writers_at_once(format: str, tmp_path: Path) -> None:
    data, out = topic(tmp_path / "data", [250, 120]), tmp_path / "out"
    two = [started(data, out, format) for _ in range(2)]
    ended = [each.communicate(timeout=300) for each in two]
    assert 0 in {each.returncode for each in two}, ended
    for each, (_, errors) in zip(two, ended, strict=True):
        assert each.returncode == 0 or "RecoveryRefused" in errors, errors
    whole(data, out, format)


@every_format
def test_a_writer_that_was_overtaken_adds_nothing(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has written its files and is about to commit when another one has committed the same records."""
    from kafkalog.tables import exporting

    data, out = topic(tmp_path / "data", [50]), tmp_path / "out"
    kafkalog.export(
        kafkalog.Export(format=format, values="bytes", filter=kafkalog.RecordFilter(end_offset=10)), data, target=out
    )
    tables: list[Any] = []
    plain: Any = exporting._table

    def table(*given: str) -> Any:
        made = plain(*given)
        commit = made.commit

        def overtaken(what: Any) -> None:
            if len(tables) == 1 and format != "parquet":
                kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out)
            commit(what)

        made.commit = overtaken
        tables.append(made)
        return made

    monkeypatch.setattr(exporting, "_table", table)
    if format == "parquet":  # a lock keeps the other one away
        first = plain(format, str(out), "orders")
        first.load()
        with pytest.raises(kafkalog.RecoveryRefused, match="another export is writing"):
            kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out)
        first.close()
    else:
        files = set(out.rglob("*.parquet"))
        with pytest.raises(kafkalog.RecoveryRefused, match="another writer"):
            kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out)
        assert len(set(out.rglob("*.parquet")) - files) == 1  # its own are gone
    monkeypatch.undo()
    whole(data, out, format)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_writer_whose_columns_were_overtaken_adds_none(format: str, tmp_path: Path) -> None:
    """Another one has added a column between the loading and the change of the schema."""
    from kafkalog.tables import exporting

    data, out = topic(tmp_path / "data", [20]), tmp_path / "out"
    kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out)
    overtaken, other = (exporting._table(format, str(out), "orders") for _ in range(2))
    settings = overtaken.load()
    assert settings is not None
    other.load()
    schema = pa.schema([("offset", pa.int64())])
    other.prepare(schema.append(pa.field("new", pa.string())), settings)
    with pytest.raises(kafkalog.RecoveryRefused, match="another writer"):
        overtaken.prepare(schema.append(pa.field("newer", pa.string())), settings)
    whole(data, out, format)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_commit_that_is_there_although_it_failed(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of a commit may be unknown: the table is asked."""
    data, out = topic(tmp_path / "data", [50]), tmp_path / "out"
    if format == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog
        from pyiceberg.exceptions import CommitStateUnknownException

        commit: Any = SqlCatalog.commit_table

        def lost(self: Any, *given: Any, **named: Any) -> Any:
            found = commit(self, *given, **named)
            if "snapshot" in str(given[2]) or "AddSnapshot" in repr(given):
                raise CommitStateUnknownException("no answer")
            return found

        monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    else:
        from deltalake import DeltaTable

        write: Any = DeltaTable.create_write_transaction

        def lost(self: Any, *given: Any, **named: Any) -> Any:
            write(self, *given, **named)
            raise OSError("no answer")

        monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    kafkalog.export(kafkalog.Export(format=format, values="bytes"), data, target=out)
    monkeypatch.undo()
    whole(data, out, format)
