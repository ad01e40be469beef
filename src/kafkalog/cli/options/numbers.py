"""Whole numbers on a command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

__all__ = ["BROKER_ID", "FIELD_COUNT", "JOB_COUNT", "OFFSET", "PARTITION", "PARTITION_COUNT", "Whole"]

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LONGEST_SHOWN = 60

if TYPE_CHECKING:
    _NumberType = click.ParamType[int]
else:
    _NumberType = click.ParamType  # not generic before click 8.4


class Whole(_NumberType):
    """Option type for a whole number from `low` to `high` (inclusive)."""

    name = "number"

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Fails with `click.BadParameter` unless the text is a whole number from `low` to `high`
        (inclusive).
        """
        text = str(value).strip()
        number = int(text) if _NUMBER.fullmatch(text) else None
        if number is None or not self.low <= number <= self.high:
            shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
            self.fail(f"{shown!r} is not a whole number from {self.low} to {self.high}", param, ctx)
        return number


PARTITION = Whole(0, (1 << 31) - 1)
BROKER_ID = Whole(0, (1 << 31) - 1)
OFFSET = Whole(0, (1 << 63) - 1)
PARTITION_COUNT = Whole(1, 1_000_000)
JOB_COUNT = Whole(1, 1024)
FIELD_COUNT = Whole(1, 1_000_000)
