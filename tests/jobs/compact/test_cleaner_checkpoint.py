"""`cleaner-offset-checkpoint`, written as a broker writes it: in the order of a Java hash map."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.jobs.compact.cleaner_checkpoint import CleanerCheckpoint
from kafkalog.log.storage.tree import Tree
from testkit.recorded.fixture_data import broker_case

NAME = "cleaner-offset-checkpoint"


def rows(text: str) -> list[tuple[str, int, int]]:
    found = [line.split() for line in text.splitlines()[2:]]
    return [(topic, int(partition), int(offset)) for topic, partition, offset in found]


def tree_of(text: str) -> Tree:
    tree = Tree({}, (), lambda path: pytest.fail(f"{path} is no original"))
    tree.write(NAME, text.encode())
    return tree


@pytest.mark.parametrize("version", ["4.1.1", "4.3.0"])
def test_the_order_is_that_of_the_files_that_brokers_wrote(version: str, tmp_path: Path) -> None:
    (broker,) = broker_case(version, "compact").unpack(tmp_path).iterdir()
    text = (broker / NAME).read_text()
    expected = rows(text)
    assert len(expected) >= 4
    mixed = [*expected[2:], *expected[:2]]  # rows of one bucket stay in their order
    tree = tree_of(f"0\n{len(mixed)}\n" + "".join(f"{t} {p} {o}\n" for t, p, o in mixed))
    checkpoint = CleanerCheckpoint(tree, {(topic, partition) for topic, partition, _offset in mixed})
    topic, partition, offset = mixed[0]
    assert checkpoint.offset((topic, partition)) == offset
    checkpoint.put((topic, partition), offset)
    assert tree.read(NAME).decode() == text


def test_what_is_not_known_any_more_goes_with_the_next_change() -> None:
    tree = tree_of("0\n2\ngone 0 5\nhere 1 7\n")
    checkpoint = CleanerCheckpoint(tree, {("here", 1), ("new", 0)})
    assert checkpoint.offset(("gone", 0)) == 5
    checkpoint.put(("new", 0), 9)
    assert sorted(rows(tree.read(NAME).decode())) == [("here", 1, 7), ("new", 0, 9)]


def test_a_broker_that_has_a_cleaner_has_the_file() -> None:
    tree = Tree({}, (), lambda path: pytest.fail(f"{path} is no original"))
    checkpoint = CleanerCheckpoint(tree, set())
    checkpoint.create()
    assert tree.read(NAME) == b""
