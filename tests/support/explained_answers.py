"""Where `serve` answers differently from a broker, on purpose, and why: the table of docs/serve.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from answer_comparing import Difference

__all__ = ["EXPLAINED", "Explained", "explained"]


@dataclass(frozen=True)
class Explained:
    """A kind of difference; `pattern` is of API, field, and the two values."""

    api: str
    field: str
    ours: str
    theirs: str
    why: str
    pattern: str


EXPLAINED: tuple[Explained, ...] = ()


def explained(difference: Difference) -> Explained | None:
    """Why two answers differ; None if nobody says."""
    text = f"{difference.api} {difference.path} {difference.ours!r} {difference.theirs!r}"
    return next((each for each in EXPLAINED if re.fullmatch(each.pattern, text)), None)
