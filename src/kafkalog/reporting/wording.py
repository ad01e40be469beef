"""Sizes, times, offsets and rates as text for people."""

from __future__ import annotations

from kafkalog.codec.common.wording import plural
from kafkalog.inspect.facts import ReportFacts
from kafkalog.words.times import time_text

__all__ = [
    "duration_text",
    "offsets_text",
    "percent_text",
    "rate_text",
    "records_counted",
    "seconds_text",
    "shortened",
    "size_text",
    "span_text",
]

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_LEAST_RATE = 0.1
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def shortened(text: str, most: int = 600) -> str:
    """Return text from data, cut to `most` characters and followed by an ellipsis and its full length; unchanged if it
    is not longer.
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters in all)"


def size_text(size: int | float) -> str:
    """Return a size in bytes as text: `1 byte`, `1,023 bytes`, `1.5 MiB` (binary units, up to PiB)."""
    unit = 0
    value = float(size)
    while round(value, min(unit, 1)) >= _STEP and unit + 1 < len(_UNITS):
        value /= _STEP
        unit += 1
    if unit == 0:
        return "1 byte" if size == 1 else f"{size:,.0f} bytes"
    return f"{value:.1f} {_UNITS[unit]}"


def records_counted(facts: ReportFacts) -> str:
    """Return text with the number of records in sound batches, before and after damage, according to batch headers.
    Control records are not counted.
    """
    records = facts.examined.records
    behind = f", {facts.behind_damage:,} of them after damage, where no consumer gets" if facts.behind_damage else ""
    return f"{records:,} {plural(records, 'record')}{behind}"


def seconds_text(milliseconds: int | None) -> str:
    """Text of a time (ms since 1970) in UTC, to the second; empty for None."""
    text = time_text(milliseconds)
    return text[:-5].replace("T", " ") + " UTC" if text.endswith("Z") else text


def span_text(first: int | None, last: int | None) -> str:
    """Text of a time span; empty if a time is unknown."""
    if first is None or last is None:
        return ""
    return seconds_text(first) if first == last else f"{seconds_text(first)} to {seconds_text(last)}"


def duration_text(milliseconds: int) -> str:
    """Return a duration as text, in the largest unit that is not longer than it: `3 d`, `1.5 h`, `20 s`. Below one
    second it is in ms.
    """
    for length, unit in _DURATIONS:
        if milliseconds >= length:
            return f"{milliseconds / length:.1f} {unit}".replace(".0 ", " ")
    return f"{milliseconds} ms"


def rate_text(amount: int, first: int | None, last: int | None, *, of_bytes: bool = False) -> str:
    """Return the average rate over the span from `first` to `last` (ms since 1970) as text: per second, or per hour or
    day if it is low. Empty if one of them is None or the span is below one second. With `of_bytes` the amount is in
    bytes, otherwise a number.
    """
    if first is None or last is None or last - first < 1000:
        return ""
    unit, value = "s", amount * 1000 / (last - first)
    for longer, times in (("h", 3600), ("d", 24)):
        if value < _LEAST_RATE:
            unit, value = longer, value * times
    return f"{size_text(value)}/{unit}" if of_bytes else f"{value:,.1f}/{unit}"


def offsets_text(first: int | None, last: int | None) -> str:
    """Text of an offset range: `42`, `42 to 99`; empty if unknown."""
    if first is None or last is None:
        return ""
    return f"{first}" if first == last else f"{first} to {last}"


def percent_text(part: int, whole: int) -> str:
    """Text of a share in percent; empty if the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else ""
