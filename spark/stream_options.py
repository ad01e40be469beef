"""Parse and check the options of a stream: those of a batch read that apply, and limits per trigger.

Names, defaults and refusals are those of Spark's Kafka source (`KafkaSourceProvider`, `KafkaMicroBatchStream`), with
`maxBytesPerTrigger` from Spark's file sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import UsageError
from kafkalog.spark.bounds import EARLIEST
from kafkalog.spark.options import OF_A_STREAM, RECORDS, ReadOptions, parse_options, positive

__all__ = ["StreamOptions", "parse_stream_options"]

_MAX_OFFSETS, _MIN_OFFSETS, _MAX_DELAY, _MAX_BYTES = OF_A_STREAM
_ENDINGS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DEFAULT_DELAY = "15m"


class StreamOptions(Struct, frozen=True, kw_only=True):
    """The parsed and checked options of a stream."""

    read: ReadOptions
    max_offsets: int | None
    min_offsets: int | None
    max_bytes: int | None
    max_delay_ms: int
    """how long fewer than `min_offsets` may wait"""


def _milliseconds(option: str, text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.strip().lower())
    if match is None or (match[2] or "ms") not in _MS:
        raise UsageError(f"option {option} is a time like 500ms, 10s, 15m or 1h, not {text!r}")
    return int(match[1]) * _MS[match[2] or "ms"]


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Return the checked options of a stream, with defaults for those that are not set. Raises `UsageError` if an
    option is unknown or invalid, with one sentence that names it as documented. Raises `UsageError` also for what only
    batch queries have: an ending bound, a remote tier, a path in an object store, or `contents` with another value than
    `records`.
    """
    lowered = {name.lower(): value for name, value in options.items()}
    for name in _ENDINGS:
        if name.lower() in lowered:
            raise UsageError(f"option {name} has no effect for a stream, which does not end")
    if lowered.get("contents", RECORDS).strip().lower() != RECORDS:
        raise UsageError(f"option contents is {lowered['contents']}, and a stream reads {RECORDS}")
    if "remote" in lowered:
        raise UsageError("option remote is for batch queries: a stream reads what is written to the local part")
    read = parse_options(lowered, streaming=True)
    for path in read.paths:
        scheme, mark, _ = path.partition("://")
        if mark and scheme.lower() != "file":
            raise UsageError(f"{path} is not a local path; a stream reads what is mounted on driver and executors")
    for (topic, partition), offset in read.start.offsets or ():
        if offset < EARLIEST:
            raise UsageError(f"option {read.start.option} has offset {offset} for {topic}-{partition}")
    max_offsets, min_offsets = positive(lowered, _MAX_OFFSETS), positive(lowered, _MIN_OFFSETS)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise UsageError(f"option {_MIN_OFFSETS} is {min_offsets}, above {_MAX_OFFSETS}, which is {max_offsets}")
    return StreamOptions(
        read=replace(read, ignored=tuple(name for name in read.ignored if name not in OF_A_STREAM)),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_bytes=positive(lowered, _MAX_BYTES),
        max_delay_ms=_milliseconds(_MAX_DELAY, lowered.get(_MAX_DELAY.lower(), _DEFAULT_DELAY)),
    )
