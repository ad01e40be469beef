"""The headers of a log are the same whether its bytes are read into memory that is there or not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.source import Source, reads_into
from kafkalog.codec.headers import run_scanner, table
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.table import HeaderRun, HeaderTable, MemoryBudget
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log import open_all
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.content import Content, ContentSource, Slice
from testkit.judging.executions import choose_execution
from testkit.made.batches import simple
from testkit.recorded.broker_dirs import brokers

pytestmark = pytest.mark.compiled

CASES = ("0.9.0.1/codecs", "2.8.2/txn", "4.1.1/segments", "4.1.1/codecs")


def contents(case_id: str) -> Iterator[bytes]:
    """Logs of a broker, whole and damaged."""
    rng = random.Random(case_id)
    for partition in open_all(*brokers(case_id)).readable(replica="longest"):
        for segment in partition.segments:
            content = bytearray(Path(segment.path).read_bytes())
            if content:
                yield bytes(content)
                yield bytes(content[: rng.randrange(len(content))])
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
                yield bytes(content)


def files(case_id: str, path: Path) -> Iterator[tuple[FileSource, int, list[object]]]:
    """Each as a file, with its size, and where its batches are and their headers as the readable walk has them."""
    for content in contents(case_id):
        path.write_bytes(content)
        with FileSource(path) as file:
            yield file, len(content), [(batch.position, batch.header) for batch in Scanner(file)]


@pytest.mark.parametrize("window", [100, 3_000, 1 << 20])
@pytest.mark.parametrize("case_id", CASES)
def test_reading_into_memory_gives_the_same_headers(
    case_id: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "00000000000000000000.log"
    monkeypatch.setattr(table, "_READ_WINDOW", window)
    seen = 0
    for file, size, expected in files(case_id, path):
        origins: dict[str, Source] = {"log": file}
        virtual = ContentSource(Content((Slice("log", 0, size),)), origins.__getitem__)
        for source in (file, virtual):
            for reads in (True, False):
                monkeypatch.setattr(table, "reads_into", reads_into if reads else lambda _source: None)
                runs = HeaderTable(size, MemoryBudget(0)).runs(source, size)
                found = [(batch.position, batch.header) for run in runs for batch in run]
                assert found == expected[: len(found)]
                assert len(found) == len(expected)
                seen += len(found)
    assert seen > 20


@pytest.mark.parametrize("window", [3_000, 1 << 20])
@pytest.mark.parametrize("case_id", CASES)
def test_what_another_walk_finds_is_what_its_own_would(
    case_id: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "00000000000000000000.log"
    monkeypatch.setattr(run_scanner, "_SMALLEST_WINDOW", window)
    noted = 0
    for file, size, expected in files(case_id, path):
        for left in (3, 10**9):  # the other walk may be left in the middle
            known = HeaderTable(size, MemoryBudget(1 << 20))
            for _ in itertools.islice(known.noting(RunScanner(file)), left):
                pass
            noted += sum(map(len, known._cached))
            assert [(batch.position, batch.header) for run in known.runs(file, size) for batch in run] == expected
    assert noted > 0 or case_id.startswith("0.9")


def test_a_log_is_read_once_to_be_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its records, and by what a broker's start would do with it."""
    choose_execution(monkeypatch, 0)
    root = tmp_path / "logs"
    (root / "t-0").mkdir(parents=True)
    batches = [simple(5, base) for base in range(0, 2000, 5)]
    (root / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    walks = []
    walked = HeaderTable._walk

    def counted(self: HeaderTable, source: Source, position: int) -> Iterator[HeaderRun]:
        walks.append(position)
        return walked(self, source, position)

    monkeypatch.setattr(HeaderTable, "_walk", counted)
    report = kafkalog.verify(root)
    assert report.directories[0].broker is not None
    assert [each.batches for each in report.partitions] == [400]
    assert walks == []
