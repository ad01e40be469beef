"""What commands say of a format that is newer than this program, and that none of them takes it for rubbish."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

MAGIC_AT = 16
"""in a batch: after its offset, its size and its leader epoch"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")


def with_magic_3(root: Path) -> str:
    """Give every batch of the largest log the next magic, which no checksum covers; its topic-partition."""
    log = max(root.glob("trades-41-*/*.log"), key=lambda path: path.stat().st_size)
    data, position = bytearray(log.read_bytes()), 0
    while position < len(data):
        data[position + MAGIC_AT] = 3
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    log.write_bytes(data)
    return log.parent.name


@pytest.mark.parametrize("command", ["ls", "verify", "plan", "recover --dry-run", "dump"])
def test_batches_of_a_later_format(root: Path, command: str) -> None:
    """They are said to be perhaps of a newer Kafka, not only to be damaged."""
    name = with_magic_3(root)
    finished = kafkalog(*command.split(), root)
    assert finished.code == 1
    lines = [each for each in (finished.out + finished.err).splitlines() if "error: magic_unknown" in each]
    assert lines
    words = "magic 3: a damaged byte, or a format that is newer than this program, which knows 0 to 2"
    assert all(name in each and words in each for each in lines)


@pytest.mark.parametrize("is_clean", [True, False])
def test_batches_of_a_later_format_are_not_cut_without_consent(root: Path, is_clean: bool) -> None:
    """Whether the broker was stopped or crashed, no log loses a byte; indexes may be made again."""
    with_magic_3(root)
    if not is_clean:
        (root / ".kafka_cleanshutdown").unlink()
    before = {path: path.read_bytes() for path in root.rglob("*.log")}
    kafkalog("recover", "--yes", root)
    assert {path: path.read_bytes() for path in root.rglob("*.log")} == before


@pytest.mark.parametrize("command", ["ls", "verify", "quorum show"])
def test_a_later_version_of_meta_properties(root: Path, command: str) -> None:
    """Logs are read all the same; what the file says is not believed."""
    file = root / "meta.properties"
    text = file.read_text()
    assert "version=1\n" in text
    file.write_text(text.replace("version=1\n", "version=2\n"))
    finished = kafkalog(*command.split(), root)
    assert finished.code == 1
    assert "meta_properties_invalid" in finished.err
    assert "version 2: damaged, or newer than this program, which knows 0 and 1" in finished.err
