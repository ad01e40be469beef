"""What a night starts from: a broker that wrote, and what a consumer has to get afterwards."""

from __future__ import annotations

import base64
import random
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalog import RecordBatch, iter_records
from testkit.kafka.kafka_tools import write_tools
from testkit.running.pages import DOCS, TAKEN_BACK, Command, Followed, blocks_of, sections_of, type_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from testkit.kafka.kafka_oracle import Json
    from testkit.kafka.real_broker import RealBroker

__all__ = [
    "T0", "VERSION", "mounted", "newest_log", "produced", "resized", "section", "shell_lines", "taken_back", "tools_of",
    "type_page", "values", "values_of", "wait_for",
]  # fmt: skip

VERSION = "4.3.0"
T0 = 1_700_000_000_000
_SECONDS = 90


def produced(broker: RealBroker, topic: str, count: int, partitions: int = 1, *, seed: int = 1) -> list[str]:
    """Write records of one topic, ten to a batch; their values, as `values` gives them."""
    rng = random.Random(seed)
    sent = [base64.b64encode(rng.randbytes(rng.randint(40, 90))).decode() for _ in range(count)]
    records = [{"partition": n % partitions, "ts": T0 + n * 1000, "v": value} for n, value in enumerate(sent)]
    broker.client("produce", topic=topic, records=records)
    return sorted(sent)


def values(read: Mapping[str, Json]) -> list[str]:
    """All values that a consumer got."""
    return sorted(record["value"] for each in read.values() for record in each["records"])


def _sections(page: str) -> dict[str, list[Command]]:
    return sections_of(DOCS / "runbook" / f"{page}.md")


def type_page(page: str, place: Path, instead: Mapping[str, str] | None = None) -> list[Followed]:
    """Type every command of a page of the runbook, up to where it takes all of it back."""
    wanted = [command for name, each in _sections(page).items() if name != TAKEN_BACK for command in each]
    return type_commands(wanted, place, instead)


def taken_back(page: str, place: Path) -> list[Followed]:
    """Type what takes it back."""
    return type_commands(_sections(page)[TAKEN_BACK], place)


def section(page: str, beginning: str) -> list[Command]:
    """The commands of the one section whose heading begins so."""
    (found,) = (each for name, each in _sections(page).items() if name.startswith(f"## {beginning}"))
    return found


def values_of(batches: Iterable[RecordBatch]) -> list[str]:
    """The values in batches of a log."""
    return [base64.b64encode(each.value or b"").decode() for batch in batches for each in iter_records(batch)]


def tools_of(broker: RealBroker, place: Path | None = None) -> Callable[..., str]:
    """Types a line with Kafka's own tools on PATH, in the broker's directory or in `place`; HOST:PORT is the broker's.

    What it prints; it has to end with the exit code that is given.
    """
    place = place or broker.directory
    folder = write_tools(broker.version, place / "bin")

    def typed(line: str, code: int = 0) -> str:
        line = line.replace("HOST:PORT", broker.bootstrap)
        (done,) = type_commands([Command(f"PATH={folder}:$PATH; {line}", code, ())], place)
        assert "Error" not in done.output, done.output
        return done.output

    return typed


def shell_lines(page: str) -> list[str]:
    """The lines of a page that are shown and that no test of the page types, because they need a cluster."""
    blocks = blocks_of(DOCS / "runbook" / f"{page}.md")
    return [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]


def newest_log(partition: Path) -> Path:
    """The last segment of a log that has batches."""
    return max((path for path in partition.glob("*.log") if path.stat().st_size), key=lambda path: int(path.stem))


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", "-t", "tmpfs", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system of a given size can be mounted here: {done.stderr.strip()}")


@contextmanager
def mounted(directory: Path, size: str) -> Iterator[None]:
    """A file system of its own, no larger than that."""
    directory.mkdir()
    _mount("-o", f"size={size}", "tmpfs", str(directory))
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def resized(directory: Path, size: str) -> None:
    """Make room on it."""
    _mount("-o", f"remount,size={size}", "tmpfs", str(directory))


def wait_for(what: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + _SECONDS
    while not what():
        assert time.monotonic() < deadline, "the broker does not do it"
        time.sleep(0.2)
