"""The map from old offsets to new ones, and the journal that outlives a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.common.errors import UsageError
from kafkalog.replay.journal import Journal
from kafkalog.replay.offset_map import OffsetMap, Run, read_parquet, runs_of, write_parquet


@st.composite
def pairs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Offsets of the source with gaps (compaction, markers), and of the target with others (markers)."""
    source = target = 0
    found = []
    for _ in range(draw(st.integers(0, 40))):
        source += draw(st.sampled_from([1, 1, 1, 2, 7]))
        target += draw(st.sampled_from([1, 1, 1, 2]))
        found.append((source, target))
    return found


@given(pairs(), st.integers(0, 200))
def test_a_consumer_goes_on_at_the_first_record_it_had_not_read(found: list[tuple[int, int]], offset: int) -> None:
    moved = OffsetMap(runs_of(found)).moved(offset, empty=-7)
    left = [target for source, target in found if source >= offset]
    if left:
        assert moved == left[0]
    else:
        assert moved == (found[-1][1] + 1 if found else -7)


@given(pairs())
def test_runs_hold_every_pair_once(found: list[tuple[int, int]]) -> None:
    joined = OffsetMap(runs_of(found))
    assert [(run.source + each, run.target + each) for run in joined.runs for each in range(run.count)] == found
    assert joined.records == len(found)


def test_the_file_has_a_row_for_each_record(tmp_path: Path) -> None:
    many = OffsetMap([Run(0, 5, 70_000), Run(70_010, 75_006, 3)])
    write_parquet(str(tmp_path / "map.parquet"), {("b", 1): many, ("a", 0): OffsetMap([Run(3, 0, 1)])}, {"b": "new.b"})
    rows = pq.read_table(tmp_path / "map.parquet").to_pylist()
    assert rows[0] == {"topic": "a", "partition": 0, "offset": 3, "target_topic": "a", "target_offset": 0}
    assert len(rows) == 70_004
    assert rows[-1] == {
        "topic": "b", "partition": 1, "offset": 70_012, "target_topic": "new.b", "target_offset": 75_008,
    }  # fmt: skip
    with pytest.raises(UsageError, match="already exists"):
        write_parquet(str(tmp_path / "map.parquet"), {}, {})


def test_only_transactions_that_were_committed_count(tmp_path: Path) -> None:
    """The second was aborted after it had been noted, and what came in its place was cut elsewhere."""
    path = str(tmp_path / "map.journal")
    with Journal(path, "r to c") as journal:
        journal.add("t", 0, 0, 100, [Run(0, 0, 100)])
        journal.add("t", 0, 100, 200, [Run(100, 101, 100)])
        journal.add("t", 0, 100, 150, [Run(100, 202, 50)])
        journal.add("t", 1, 0, 9, [Run(0, 0, 9)])
    with open(path, "ab") as torn:
        torn.write(b'{"topic":"t","partition":0,"from":150,"ne')
    with Journal(path, "r to c") as journal:
        assert journal.map_of("t", 0, 0, 150).runs == [Run(0, 0, 100), Run(100, 202, 50)]
        assert journal.map_of("t", 0, 0, 0).runs == []
        journal.add("t", 0, 150, 250, [Run(150, 253, 100)])
        assert journal.map_of("t", 0, 0, 250).records == 250
        with pytest.raises(UsageError, match="lacks the transaction of t-0 that ended at offset 300"):
            journal.map_of("t", 0, 0, 300)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]\n", b'{"replay":"r to c"}\n{"topic":"t"}\n', b"\xff\n", b'{"replay":"r to c"}\n[1]\n',
        b"[" * 100_000 + b"\n",
        b'{"replay":"r to c"}\n{"topic":"t","partition":Infinity,"from":0,"next":3,"runs":[]}\n',
    ],
)  # fmt: skip
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "map.journal"
    path.write_bytes(content)
    if content:
        with pytest.raises(UsageError, match="is not the journal of a replay"):
            Journal(str(path), "r to c")
        assert path.read_bytes() == content
    else:
        Journal(str(path), "r to c").close()
        assert path.read_bytes().startswith(b'{"replay"')


def test_the_journal_of_another_replay_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "map.journal")
    with Journal(path, "one to c") as journal:
        journal.add("t", 0, 0, 5, [Run(0, 0, 5)])
    with pytest.raises(UsageError, match="another replay"):
        Journal(path, "two to c")


@pytest.mark.parametrize(
    "columns",
    [
        {"topic": ["t"], "partition": [0], "offset": [1]},
        {"topic": ["t"], "partition": [0], "offset": ["1"], "target_offset": [1]},
        {"topic": ["t"], "partition": [0], "offset": pa.array([None], pa.int64()), "target_offset": [1]},
    ],
)
def test_a_file_with_other_columns_is_no_map(columns: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(UsageError, match="is not the map of a replay"):
        read_parquet(str(path), [("t", 0)])
