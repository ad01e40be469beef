"""Times on a command line, and the options that take one: `--at`, `--start-time`, `--end-time`."""

from __future__ import annotations

import datetime as dates
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

__all__ = ["AT", "TIME_METAVAR", "Age", "Timestamp", "time_bound_options", "time_range_options"]

Function = TypeVar("Function", bound=Callable[..., Any])

TIME_METAVAR = "TIME"
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_YEAR = re.compile(r"[1-9][0-9]{3}", re.ASCII)
_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|[smhdw])?", re.ASCII)
_MILLISECONDS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}")
_RELATIVE = re.compile(r"([+-])([0-9]{1,19})(ms|[smhdw])", re.ASCII)
_LONGEST_SHOWN = 60
_LONGEST_ISO = 40
"""characters; what comes after them would be passed over as parts of a microsecond"""
_LARGEST = (1 << 63) - 1

if TYPE_CHECKING:
    _TimeType = click.ParamType[int]
    _AgeType = click.ParamType[float]
else:
    _TimeType = _AgeType = click.ParamType  # not generic before click 8.4


class Timestamp(_TimeType):
    """Option type for a time: milliseconds since 1970, an ISO 8601 date and time (UTC unless it names a zone), or a
    span from now such as `-2h`.

    A time without a date is on the present day, in its zone or else in UTC. Four digits are a year, as in ISO 8601, not
    milliseconds. Now is `--at` if that option is used, else the clock.
    """

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the time in ms since 1970. Fails with `click.BadParameter` if the text is not a time, or does not
        fit in 64 bits.
        """
        text = str(value).strip()
        moment = self._moment(text, ctx)
        if moment is None:
            shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
            self.fail(
                f"{shown!r} is neither milliseconds since 1970 nor an ISO 8601 time, nor a span from now like "
                "-2h (units: ms, s, m, h, d, w)",
                param,
                ctx,
            )
        if not -_LARGEST - 1 <= moment <= _LARGEST:
            self.fail(f"{text!r} is not a time that 64 bits of milliseconds can hold", param, ctx)
        return moment

    @staticmethod
    def _moment(text: str, ctx: click.Context | None) -> int | None:
        if _YEAR.fullmatch(text):
            return round(datetime(int(text), 1, 1, tzinfo=UTC).timestamp() * 1000)
        if _MILLISECONDS.fullmatch(text):
            return int(text)
        at = ctx.params.get("at") if ctx is not None else None
        now = at if isinstance(at, int) else time.time_ns() // 1_000_000
        span = _RELATIVE.fullmatch(text)
        if span is not None:
            length = int(span[2]) * _UNITS[span[3]]
            return now - length if span[1] == "-" else now + length
        if len(text) > _LONGEST_ISO:
            return None
        try:
            moment = _today(text, now) if _CLOCK.match(text) else datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)


def _today(text: str, now_ms: int) -> datetime:
    """Return the time of day in `text` on the day that contains `now_ms`, in its own time zone or else in UTC. Raises
    `ValueError` if `text` is not a time of day, `OverflowError` if that day is after the year 9999.
    """
    clock = dates.time.fromisoformat(text)
    today = datetime.fromtimestamp(now_ms / 1000, clock.tzinfo or UTC).date()
    return datetime.combine(today, clock)


class Age(_AgeType):
    """Option type for a length of time: a number in the unit of the option (days or another), or a number with a unit,
    such as `36h`.
    """

    name = "age"

    def __init__(self, unit: str = "d") -> None:
        self._unit = unit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the length as a number of this option's unit (days or hours): with days, `36h` is 1.5. Units are ms,
        s, m, h, d and w. A float is returned unchanged. Raises `click.BadParameter` for any other text, for example a
        negative number.
        """
        if isinstance(value, float):
            return value
        found = _AGE.fullmatch(str(value).strip())
        if found is None:
            shown, words = str(value)[:_LONGEST_SHOWN], {"d": "days", "h": "hours"}[self._unit]
            self.fail(f"{shown!r} is neither a number of {words} nor a span like 36h (units: ms, s, m, h, d, w)",
                      param, ctx)  # fmt: skip
        return float(found[1]) * _UNITS[found[2] or self._unit] / _UNITS[self._unit]


class _Now(Timestamp):
    """A time that can be now."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the time in ms since 1970. Fails with `click.BadParameter` also if it is before 1970."""
        moment = super().convert(value, param, ctx)
        if moment < 0:
            self.fail(f"{str(value)!r} is before 1970", param, ctx)
        return moment


AT = click.option(
    "--at",
    metavar=TIME_METAVAR,
    type=_Now(),
    is_eager=True,
    help="The time to treat as now: ms since 1970, ISO 8601 (UTC unless it names a zone), or a span such as -2h.",
)
"""As `at`, in ms; read before all other options, so that spans can be counted from it."""


def time_range_options(function: Function) -> Function:
    """Add `--start-time` (`--since`, inclusive) and `--end-time` (`--until`, exclusive) to a click command, and
    return it; the parameters `start_time` and `end_time` are ms since 1970, or None. The time of each record counts.
    """
    return _with_times(function, "Only records at or after this time", "Only records before this time (exclusive).")


def time_bound_options(function: Function) -> Function:
    """Add the options of `time_range_options` to a command whose times stand for offsets, as in `RecordFilter`."""
    return _with_times(
        function, "Only from the first record on that is at or after this time",
        "Only up to the first record (exclusive) that is at or after this time.",
    )  # fmt: skip


def _with_times(function: Function, start: str, end: str) -> Function:
    for option in (
        click.option("--end-time", "--until", "end_time", metavar=TIME_METAVAR, type=Timestamp(), help=end),
        click.option("--start-time", "--since", "start_time", metavar=TIME_METAVAR, type=Timestamp(),
                     help=f"{start}: ms since 1970, ISO 8601 (UTC unless it names a zone; a "
                     "time without a date is today), or a span before now such as -2h."),
    ):  # fmt: skip
        function = option(function)
    return function
