"""The log directories of the node that a command asks about."""

from __future__ import annotations

from pathlib import Path

from kafkalog.recovery.broker.start_question import directories_of_node


def test_an_empty_log_directory_that_is_called_like_a_partition_is_not_one(tmp_path: Path) -> None:
    first, second = tmp_path / "logs-0", tmp_path / "logs-1"
    (first / "t-0").mkdir(parents=True)
    (first / "meta.properties").write_text("version=1\nnode.id=1\n")
    (first / "t-0" / f"{0:020d}.log").touch()
    second.mkdir()
    assert directories_of_node(str(first), [str(first), str(second)]) == [str(first), str(second)]


def test_a_partition_stands_for_its_log_directory_even_if_it_is_empty_or_has_no_meta_properties(tmp_path: Path) -> None:
    root, bare = tmp_path / "data", tmp_path / "bare"
    for partition in (root / "t-0", root / "t-1", bare / "t-2"):
        partition.mkdir(parents=True)
    (root / "meta.properties").write_text("version=1\nnode.id=1\n")
    (bare / "t-2" / f"{0:020d}.log").touch()
    assert directories_of_node(str(root), [str(root / "t-0"), str(root / "t-1")]) == [str(root)]
    assert directories_of_node(str(bare), [str(bare / "t-2")]) == [str(bare)]
