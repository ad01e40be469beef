"""The broker's text checkpoints: its words for a file that it cannot read, and results that are kept by content."""

from __future__ import annotations

import pytest

from kafkalog.log.storage.checkpoint_file import by_content, read_offset_checkpoint
from kafkalog.log.storage.java import JavaIOError

PATH = "d1/recovery-point-offset-checkpoint"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # Kafka 4.3.0, when it was started on this file
        (b"0\nabc\n", f"Malformed line in checkpoint file [{PATH}]: abc"),
        # `CheckpointFile` of Kafka 4.0
        (b"0\n1\nt 0\n", f"Malformed line in checkpoint file [{PATH}]: t 0"),
        (b"1\n0\n", f"Unrecognised version:1, expected version: 0 in checkpoint file at: {PATH}"),
        (b"0\n2\nt 0 5\n", f"Expected [2] entries in checkpoint file [{PATH}], but found only [1]"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: bytes, message: str) -> None:
    for path in ("another", PATH):
        with pytest.raises(JavaIOError) as raised:
            read_offset_checkpoint(path, content)
        assert str(raised.value) == message.replace(PATH, path)
        assert raised.value.in_full("/data") == message.replace(PATH, f"/data/{path}")


def test_equal_files_are_parsed_once() -> None:
    parsed = []

    @by_content(maxsize=2)
    def parse(path: str, data: bytes) -> int:
        parsed.append(path)
        return len(data)

    assert [parse(path, b"same") for path in ("a", "b", "c")] == [4, 4, 4]
    assert len(parsed) == 1
