"""Parse and check the options of a write, once on the driver, before anything is written.

Names are Kafka's topic and producer settings (optionally with `kafka.`, as in Spark's Kafka sink), and the option
`topic` of that sink.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from urllib.parse import unquote

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.limits import KIB
from kafkalog.codec.compression.specs import SPECS
from kafkalog.codec.files.text import decode_uuid
from kafkalog.codec.model import Codec
from kafkalog.codec.rules.codec_names import as_codec
from kafkalog.log.disk.object_store import uri_parts
from kafkalog.log.writing.column_partitions import COLUMN_PARTITIONERS
from kafkalog.log.writing.config import LogConfig

__all__ = ["WriteOptions", "parse_write_options"]

DEFAULT_BATCH_BYTES = 256 * KIB
_OF_THE_LOG = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "max.message.bytes": "max_message_bytes",
}
_MEANT = (
    "path", "topic", "numPartitions", "topicId", "partitioner", "compression.type", "compression.level", "batch.size",
    *_OF_THE_LOG,
)  # fmt: skip
_WITHOUT_MEANING = ("checkpointLocation", "includeHeaders", "queryName")
"""Options of Spark, or of its Kafka source or sink, whose effect is always given here."""
_REFUSED = ("kafka.key.serializer", "kafka.value.serializer")
_SPELLING = {name.lower(): name for name in (*_MEANT, *_WITHOUT_MEANING)}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_LARGEST = 2**31 - 1


class WriteOptions(Struct, frozen=True, kw_only=True):
    """The parsed and checked options of a write."""

    path: str
    """absolute path of the log directory"""
    topic: str | None
    num_partitions: int | None
    topic_id: str | None
    partitioner: str
    codec: Codec
    level: int | None
    batch_bytes: int
    config: LogConfig
    ignored: tuple[str, ...]
    """names of options without effect, as in the documentation"""


def _given(options: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options by their documented names, and the names of those that are ignored with a warning: they begin
    with `kafka.` and have no effect here. Options of Spark itself without an effect here, such as `queryName`, are in
    neither. Of an option that is given with and without `kafka.`, the first value counts. Raises `UsageError` for an
    unknown or unsupported option.
    """
    by_name: dict[str, str] = {}
    ignored: list[str] = []
    for raw, value in options.items():
        name = raw.lower()
        plain = name.removeprefix("kafka.")
        if plain in _SPELLING and (plain == name or _SPELLING[plain] in _MEANT):
            if _SPELLING[plain] in _MEANT:
                by_name.setdefault(_SPELLING[plain], value)
        elif name in _REFUSED:
            raise UsageError(
                f"option {name} is not supported, here as in Spark's Kafka sink: keys and values are bytes"
            )
        elif name.startswith("kafka."):
            ignored.append(name)
        else:
            near = [_SPELLING[match] for match in get_close_matches(name, _SPELLING, n=3, cutoff=0.6)]
            hint = f"; is {' or '.join(near)} meant?" if near else f"; there are {', '.join(_MEANT)}"
            raise UsageError(f"kafkalog has no option {name} for writing{hint}")
    return by_name, tuple(ignored)


def _number(options: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()) or not least <= int(text) <= _LARGEST:
        raise UsageError(f"option {name} is a number from {least} to {_LARGEST}, not {text!r}")
    return int(text)


def _local(path: str) -> str:
    if _SCHEME.match(path) and not os.path.lexists(path):
        parts = uri_parts(path)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise UsageError(f"{path}: kafkalog writes where files can be locked and renamed, not into {parts.scheme}:")
        path = unquote(parts.path)
    return os.path.abspath(path)


def _topic_id(options: Mapping[str, str]) -> str | None:
    text = options.get("topicId")
    if text is not None:
        try:
            decode_uuid(text)
        except FormatError as error:
            raise UsageError(f"option topicId: {error.message}") from None
        if "topic" not in options:
            raise UsageError("option topicId is the id of one topic; give its name with the option topic")
    return text


def _partitioner(options: Mapping[str, str]) -> str:
    name = options.get("partitioner", "murmur2").strip().lower()
    if name not in COLUMN_PARTITIONERS:
        raise UsageError(f"option partitioner is one of {', '.join(COLUMN_PARTITIONERS)}, not {name!r}")
    return name


def _level(options: Mapping[str, str], codec: Codec) -> int | None:
    level = _number(options, "compression.level", least=-(2**17))
    if level is None:
        return None
    levels = SPECS[codec].levels
    if levels is None:
        raise UsageError(f"option compression.level has no effect for compression.type {codec.label}")
    least, most = levels
    if not least <= level <= most:
        raise UsageError(f"option compression.level is a number from {least} to {most} for {codec.label}, not {level}")
    return level


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the checked options of a write, with defaults for those that are not set. A relative path is made
    absolute. Raises `UsageError` if an option is unknown or invalid, if two do not fit each other, or if there is no
    path.
    """
    given, ignored = _given(options)
    if not given.get("path"):
        raise UsageError("no path was given: save(path) names the log directory that is written")
    sizes = {
        field: value for name, field in _OF_THE_LOG.items() if (value := _number(given, name, least=0)) is not None
    }
    config = LogConfig(**sizes)  # type: ignore[arg-type]
    codec = as_codec(given.get("compression.type", Codec.NONE.label).strip().lower())
    batch = _number(given, "batch.size") or min(DEFAULT_BATCH_BYTES, config.max_message_bytes, config.segment_bytes)
    return WriteOptions(
        path=_local(given["path"]),
        topic=given.get("topic"),
        num_partitions=_number(given, "numPartitions"),
        topic_id=_topic_id(given),
        partitioner=_partitioner(given),
        codec=codec,
        level=_level(given, codec),
        batch_bytes=batch,
        config=config,
        ignored=ignored,
    )
