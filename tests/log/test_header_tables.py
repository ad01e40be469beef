"""The headers of a log are the same whether its bytes are read into memory that is there or not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.codec.headers import table
from kafkalog.codec.headers.table import HeaderTable, MemoryBudget
from kafkalog.codec.scanner import Scanner
from kafkalog.codec.source import Source, reads_into
from kafkalog.log import open_all
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.content import Content, ContentSource, Slice
from testkit.recorded.broker_dirs import brokers

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


@pytest.mark.parametrize("window", [100, 3_000, 1 << 20])
@pytest.mark.parametrize("case_id", CASES)
def test_reading_into_memory_gives_the_same_headers(
    case_id: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "00000000000000000000.log"
    monkeypatch.setattr(table, "_READ_WINDOW", window)
    seen = 0
    for content in contents(case_id):
        path.write_bytes(content)
        size = len(content)
        with FileSource(path) as file:
            expected = [(batch.position, batch.header) for batch in Scanner(file)]
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
