"""Parse and check the options of a read, before any file is opened.

Names, defaults, precedence and refusals are those of Spark's Kafka source (`KafkaSourceProvider`) and of Spark's file
sources. Spark passes names in lower case and checks none of them.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.log.disk.object_store import STORAGE_OPTIONS, StorageOptions
from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS, READ_UNCOMMITTED
from kafkalog.spark.bounds import (
    EARLIEST,
    LATEST,
    Bound,
    TopicPartition,
    parse_bound,
    parse_partitions,
    refuse_in_batch,
)
from kafkalog.tiers.reading import RemotePart

__all__ = [
    "BYTES",
    "CONFLUENT",
    "CONTENTS",
    "DEFAULT_CORRUPT_COLUMN",
    "JSON",
    "OF_A_STREAM",
    "RECORDS",
    "Mode",
    "PartFormat",
    "ReadOptions",
    "parse_options",
    "positive",
]

DEFAULT_CORRUPT_COLUMN = "_corrupt_record"
DEFAULT_PARTITION_BYTES = 64 * MIB
_ISOLATION = "kafka.isolation.level"
_STRATEGY = "startingOffsetsByTimestampStrategy"
_REMOTE, _LAYOUT, _PRIVATE_KEYS = "remote", "remoteLayout", "remotePrivateKeys"
_SCHEMAS = "schemas"
_UNPACKED = "decompressedBatchBytes"
BYTES, CONFLUENT, JSON = "bytes", "confluent", "json"
PARTS = ("key", "value")

_MEANT = (
    "path", "paths", "assign", "subscribe", "subscribePattern",
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", _STRATEGY,
    "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxPartitionBytes", _UNPACKED,
    "includeHeaders", _ISOLATION, "mode", "columnNameOfCorruptRecord", "replica", "contents",
    _REMOTE, _LAYOUT, _PRIVATE_KEYS, "keyFormat", "valueFormat", "keySchema", "valueSchema", _SCHEMAS,
)  # fmt: skip
RECORDS = "records"
CONTENTS = (
    RECORDS, "batches", "segments", "findings", "offset_index", "time_index", "aborted_transactions", "producer_state",
    "leader_epochs", "checkpoints", "offsets", "groups", "transactions", "metadata", "znodes",
)  # fmt: skip
_OF_RECORDS = (
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", _STRATEGY,
    "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "minPartitions", "maxRecordsPerPartition", "maxPartitionBytes", _UNPACKED, "includeHeaders", _ISOLATION,
    "columnNameOfCorruptRecord", "keyFormat", "valueFormat", "keySchema", "valueSchema", _SCHEMAS,
)  # fmt: skip
"""Options for records only."""
OF_A_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
"""Options for streams only; see `stream_options`."""
_WITHOUT_MEANING = (
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
"""Options of Spark's Kafka source that only make sense with a broker."""
_REFUSED = {
    "kafka.auto.offset.reset": "startingOffsets says where to begin",
    "kafka.key.deserializer": "keys are bytes",
    "kafka.value.deserializer": "values are bytes",
    "kafka.enable.auto.commit": "nothing is committed to Kafka",
    "kafka.interceptor.classes": "nothing may change what is read",
}
"""Options refused by `KafkaSourceProvider.validateGeneralOptions`, and why."""
_SPELLING = {name.lower(): name for name in (*_MEANT, *OF_A_STREAM, *_WITHOUT_MEANING, *STORAGE_OPTIONS)}
_STORAGE = "storage."
_OF_A_TABLE = frozenset({"provider", "owner", "location"})


class Mode(enum.Enum):
    """What to do with bytes that cannot be read and records that cannot be decoded: fail the query, return a row that
    describes the damage, or leave them out.
    """

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


class PartFormat(Struct, frozen=True):
    """The format of keys or values that are not returned as bytes."""

    part: str
    """`key` or `value`"""
    format: str
    """CONFLUENT: the type of their schema; JSON: text, for any schema"""
    schema: str | int | None
    """subject or id of the schema that defines the type"""


class ReadOptions(Struct, frozen=True, kw_only=True):
    """The parsed and checked options of a read."""

    paths: tuple[str, ...]
    assign: tuple[TopicPartition, ...] | None
    subscribe: tuple[str, ...] | None
    subscribe_pattern: str | None
    start: Bound
    end: Bound
    latest_if_no_start: bool
    """whether a starting timestamp after all records means the end, instead of an error"""
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_partition_bytes: int
    limits: Limits
    """maximum size of a batch"""
    include_headers: bool
    isolation_level: str
    mode: Mode
    corrupt_column: str
    replica: str | None
    contents: str
    storage: StorageOptions
    """how to access paths that are URIs"""
    remote: RemotePart | None
    """location of remote segments of tiered logs"""
    formats: tuple[PartFormat, ...]
    """formats of keys and values that are not bytes"""
    schemas: str | None
    """location of the schemas, if not in the paths or beside them"""
    ignored: tuple[str, ...]
    """names of options without effect, as in the documentation"""

    def in_both_tiers(self, paths: Sequence[str]) -> list[str]:
        """Return the paths to open for `paths`, the expanded paths of the options: the same, or with the option
        `remote` paths that stand for the local and the remote part together. These are opened once. Raises `UsageError`
        or `StorageError` if the tier cannot be opened or read.
        """
        return list(paths) if self.remote is None else self.remote.paths(paths)


def _check_names(options: Mapping[str, str]) -> tuple[str, ...]:
    ignored = []
    for name in options:
        if name in _SPELLING:
            if _SPELLING[name] in (*OF_A_STREAM, *_WITHOUT_MEANING):
                ignored.append(_SPELLING[name])
            continue
        if name.startswith(_STORAGE):  # for an object store, passed on to fsspec
            continue
        if name in _REFUSED:
            raise UsageError(f"option {name} is not supported, here as in Spark's Kafka source: {_REFUSED[name]}")
        if name.startswith("kafka."):
            ignored.append(name)
            continue
        near = [_SPELLING[option] for option in get_close_matches(name, _SPELLING, n=3, cutoff=0.6)]
        hint = f"; is {' or '.join(near)} meant?" if near else f"; there are {', '.join(_MEANT)}"
        raise UsageError(f"kafkalog has no option {name}{hint}")
    return tuple(ignored)


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise UsageError(f"option {name} is true or false, not {text!r}")
    return text.lower() == "true"


def positive(options: Mapping[str, str], name: str) -> int | None:
    """Return the value of a numeric option; None if it is not set. Names in `options` must be in lower case. Raises
    `UsageError` unless the value is a number above 0 of 1 to 18 digits, which may have blanks around it.
    """
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) == 0:
        raise UsageError(f"option {name} must be a positive number, not {text!r}")
    return int(text)


def _limits(options: Mapping[str, str]) -> Limits:
    unpacked = positive(options, _UNPACKED)
    return DEFAULT_LIMITS if unpacked is None else replace(DEFAULT_LIMITS, decompressed_batch_bytes=unpacked)


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    paths: list[str] = []
    if options.get("path"):
        paths.append(options["path"])
    if "paths" in options:
        try:
            several = json.loads(options["paths"])
        except ValueError:
            several = None
        if not isinstance(several, list) or not all(isinstance(path, str) for path in several):
            raise UsageError(f"option paths is a JSON list of paths, not {options['paths']!r}")
        paths.extend(several)
    if not paths and _REMOTE not in options:
        raise UsageError(
            "no path was given: load(path); in SQL, CREATE TEMPORARY VIEW ... USING kafkalog OPTIONS (path '...'), "
            "because Spark drops the options of CREATE TABLE when it reads"
        )
    return tuple(paths)


def _one_of(options: Mapping[str, str], name: str, words: tuple[str, ...], default: str) -> str:
    text = options.get(name.lower(), default)
    for word in words:
        if text.strip().lower() == word.lower():
            return word
    raise UsageError(f"option {name} is one of {', '.join(words)}, not {text!r}")


def _selection(options: Mapping[str, str]) -> None:
    named = [name for name in ("assign", "subscribe", "subscribePattern") if name.lower() in options]
    if len(named) > 1:
        raise UsageError(f"only one of the options {', '.join(named)} can be given")


def _contents(options: Mapping[str, str]) -> str:
    contents = _one_of(options, "contents", CONTENTS, RECORDS)
    named = [name for name in _OF_RECORDS if name.lower() in options]
    if contents != RECORDS and named:
        raise UsageError(f"option {named[0]} is for records, and contents is {contents}")
    return contents


def _remote(options: Mapping[str, str], contents: str) -> RemotePart | None:
    if _REMOTE not in options:
        for name in (_LAYOUT, _PRIVATE_KEYS):
            if name.lower() in options:
                raise UsageError(f"option {name} is about the option {_REMOTE}, which was not given")
        return None
    if contents != RECORDS:
        raise UsageError(f"option {_REMOTE} is for records, and contents is {contents}")
    keys = options.get(_PRIVATE_KEYS.lower(), "")
    return RemotePart(options[_REMOTE], options.get(_LAYOUT.lower()), tuple(key for key in keys.split(",") if key))


def _formats(options: Mapping[str, str]) -> Iterator[PartFormat]:
    for part in PARTS:
        name, schema = f"{part}Format", options.get(f"{part}schema")
        format = _one_of(options, name, (BYTES, CONFLUENT, JSON), BYTES)
        if schema is not None and format != CONFLUENT:
            raise UsageError(f"option {part}Schema is about {name}={CONFLUENT}, and {name} is {format}")
        if format != BYTES:
            is_id = schema is not None and re.fullmatch(r"[0-9]{1,10}", schema)
            yield PartFormat(part, format, int(schema) if schema is not None and is_id else schema)


def parse_options(options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
    """Return the checked options of a read, with defaults for those that are not set. Names may be in any case. Raises
    `UsageError` with one sentence that names the option as documented, for unknown, invalid or contradictory options.

    With `streaming` the default start is the latest offset, and restrictions of batch queries are not checked.
    """
    given = {name.lower(): value for name, value in options.items()}
    if _OF_A_TABLE & given.keys():
        raise UsageError(
            "Spark drops the options of CREATE TABLE ... USING kafkalog when it reads the table; "
            "use CREATE TEMPORARY VIEW ... USING kafkalog OPTIONS (path '...')"
        )
    ignored = _check_names(given)
    paths = _paths(given)
    contents = _contents(given)  # checked first, since options for records are refused for other contents
    _selection(given)
    subscribe = tuple(topic.strip() for topic in given["subscribe"].split(",")) if "subscribe" in given else None
    if subscribe is not None and not all(subscribe):
        raise UsageError(f"option subscribe names topics between commas, not {given['subscribe']!r}")
    pattern = given.get("subscribepattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"option subscribePattern is not a regular expression: {error}") from None
    start = parse_bound(given, "starting", LATEST if streaming else EARLIEST)
    end = parse_bound(given, "ending", LATEST)
    if not streaming:
        refuse_in_batch(start, end)
    formats = tuple(_formats(given))
    if _SCHEMAS in given and not formats:
        raise UsageError(f"option {_SCHEMAS} is about keyFormat and valueFormat, and neither was given")
    return ReadOptions(
        paths=paths,
        assign=parse_partitions("assign", given["assign"]) if "assign" in given else None,
        subscribe=subscribe,
        subscribe_pattern=pattern,
        start=start,
        end=end,
        latest_if_no_start=_one_of(given, _STRATEGY, ("error", "latest"), "error") == "latest",
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        min_partitions=positive(given, "minPartitions"),
        max_records_per_partition=positive(given, "maxRecordsPerPartition"),
        max_partition_bytes=positive(given, "maxPartitionBytes") or DEFAULT_PARTITION_BYTES,
        limits=_limits(given),
        include_headers=_boolean(given, "includeHeaders", False),
        isolation_level=_one_of(given, _ISOLATION, ISOLATION_LEVELS, READ_UNCOMMITTED),
        mode=Mode(_one_of(given, "mode", tuple(mode.value for mode in Mode), Mode.FAILFAST.value)),
        corrupt_column=given.get("columnnameofcorruptrecord", DEFAULT_CORRUPT_COLUMN),
        replica=given.get("replica"),
        contents=contents,
        storage=StorageOptions(
            (*paths, *([given[_REMOTE]] if _REMOTE in given else [])),
            tuple((name[len(_STORAGE) :], value) for name, value in given.items() if name.startswith(_STORAGE)),
        ),
        remote=_remote(given, contents),
        formats=formats,
        schemas=given.get(_SCHEMAS),
        ignored=ignored,
    )
