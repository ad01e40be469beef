"""The recorded recovery cases, unpacked one after the other, and how a recovery just run is compared with a record."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from testkit.recorded import fixture_data

if TYPE_CHECKING:
    from collections.abc import Iterator

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UnpackedCase:
    """A recorded case with its log directory unpacked at ``before``; changing that is harmless."""

    before: Path
    facts: Json

    @property
    def name(self) -> str:
        return str(self.facts["id"])

    @property
    def params(self) -> Json:
        params: Json = self.facts["params"]
        return params

    @property
    def result(self) -> Json:
        result: Json = self.facts["result"]
        return result


def unpacked_cases(every: int = 1, family: str = "") -> Iterator[UnpackedCase]:
    """Every n-th case, of one family if named, each in a directory that is gone when the next one is asked for."""
    families = [family] if family else None
    for case in fixture_data.recovery_cases(families)[every - 1 :: every]:
        with tempfile.TemporaryDirectory() as directory:
            yield UnpackedCase(case.unpack_before(Path(directory) / "before"), case.case)


def files_after(result: Json) -> Json:
    """The listing of the final state of a recovery just run; comparable with the recorded ``after``."""
    listing: Json = result.get("after_close") or result.get("after_load") or {}
    return listing


def comparable(listing: Json) -> Json:
    """A listing without stray directories, whose names hold a random id."""
    return {name: facts for name, facts in listing.items() if "-stray" not in name}


def exception_class(result: Json) -> str | None:
    failure = result["exception"]
    return None if failure is None else str(failure["class"])
