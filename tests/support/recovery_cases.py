"""The recorded recovery cases in ``fixtures/recovery-cases``: damaged directories, and what Kafka 4.1.0 made of each.

``KAFKALOG_FIXTURES`` moves the fixtures. Fixtures that are missing are an error, never a reason to skip.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import kafka_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

Json: TypeAlias = dict[str, Any]
RECORDED_WITH = "4.1.0"


def fixtures() -> Path:
    root = Path(os.environ.get("KAFKALOG_FIXTURES") or kafka_jars.ROOT / "fixtures")
    if not root.is_dir():
        raise FileNotFoundError(f"the fixtures are missing: no directory {root}")
    return root


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One unpacked case: ``before/`` is the whole log directory, ``after/`` the files that Kafka changed or created."""

    directory: Path
    facts: Json

    @property
    def name(self) -> str:
        return str(self.facts["id"])

    @property
    def before(self) -> Path:
        return self.directory / "before"

    @property
    def params(self) -> Json:
        params: Json = self.facts["params"]
        return params

    @property
    def result(self) -> Json:
        result: Json = self.facts["result"]
        return result


def archives() -> list[Path]:
    root = fixtures() / "recovery-cases"
    found = [path for path in sorted(root.glob("*.tar.gz")) if path.name != "bases.tar.gz"]
    if not found:
        raise FileNotFoundError(f"no recovery cases in {root}")
    return found


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory, tarfile.open(archive) as tar:
        tar.extractall(directory, filter="fully_trusted")  # links to outside are part of some cases
        yield Path(directory)


def recorded_cases(every: int = 1, family: str = "") -> Iterator[RecordedCase]:
    """Every n-th case, each from a fresh unpacking; of one family if named."""
    number = 0
    for archive in archives():
        if family and archive.name != f"{family}.tar.gz":
            continue
        with unpacked(archive) as directory:
            for case in sorted(directory.iterdir()):
                number += 1
                if number % every == 0:
                    yield RecordedCase(case, json.loads((case / "case.json").read_text()))


def files_after(result: Json) -> Json:
    """The listing of the final state of a recovery just run; comparable with the recorded ``after``."""
    listing: Json = result.get("after_close") or result.get("after_load") or {}
    return listing


def comparable(listing: Json) -> Json:
    """A listing without what random ids make different: stray directories."""
    return {name: facts for name, facts in listing.items() if "-stray" not in name}


def exception_class(result: Json) -> str | None:
    failure = result["exception"]
    return None if failure is None else str(failure["class"])
