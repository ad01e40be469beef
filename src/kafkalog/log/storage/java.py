"""Reimplement Java's behavior on which results depend: exception classes, arithmetic of fixed width, hash order,
parsing of numbers.
"""

from __future__ import annotations

import re

from kafkalog.codec.common.errors import PortableError
from kafkalog.codec.common.java_map import JavaHashMap
from kafkalog.codec.model import to_int64 as int64
from kafkalog.codec.names import parse_java_long

__all__ = [
    "AlreadyOfflineError",
    "BufferUnderflowError",
    "CorruptIndexError",
    "CorruptRecordError",
    "FullIndexError",
    "IllegalArgumentError",
    "IllegalStateError",
    "IndexOffsetOverflowError",
    "IndexOutOfBoundsError",
    "InvalidOffsetError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTxnStateError",
    "JavaError",
    "JavaHashMap",
    "JavaIOError",
    "KafkaError",
    "KafkaStorageError",
    "NoSuchElementError",
    "NoSuchFileError",
    "NullPointerError",
    "NumberFormatError",
    "OffsetOverflowError",
    "OutOfOrderSequenceError",
    "TooLargeError",
    "TransactionCoordinatorFencedError",
    "as_printed",
    "int64",
    "offset_of",
    "parse_int",
    "parse_long",
    "split_on",
]


class JavaError(PortableError):
    """An exception of the broker. `java_class` is its class name in Java."""

    java_class = "java.lang.Exception"
    position: int | None = None
    """position of the batch that causes it; None if no batch does"""
    segment_path: str | None = None
    """path of the log file with the batch; None if unknown"""

    def __init__(self, message: str = "", *, file: str | None = None) -> None:
        super().__init__(message)
        self.file = file
        """path that the message names, relative to the log directory; None if it names none"""

    def in_full(self, root: str) -> str:
        """Return the message with the absolute path of the file that it names, if any; `root` is the log directory."""
        if self.file is None:
            return str(self)
        absolute = f"{root}/{self.file}"
        return re.sub(rf"(?<![\w/.-]){re.escape(self.file)}(?!\.?[\w-])", lambda _match: absolute, str(self))

    def at(self, position: int | None, segment_path: str | None = None) -> JavaError:
        """Set position and segment path unless they are already known; return the exception itself."""
        self.position = position if self.position is None else self.position
        self.segment_path = segment_path if self.segment_path is None else self.segment_path
        return self


class JavaIOError(JavaError):
    """An I/O error, which takes the log directory offline."""

    java_class = "java.io.IOException"


class NoSuchFileError(JavaIOError):
    """A file is missing; takes the log directory offline."""

    java_class = "java.nio.file.NoSuchFileException"


class KafkaError(JavaError):
    """Kafka's general error; ends the broker's start."""

    java_class = "org.apache.kafka.common.KafkaException"


class KafkaStorageError(JavaError):
    """A wrapped I/O error; takes the log directory offline."""

    java_class = "org.apache.kafka.common.errors.KafkaStorageException"


class AlreadyOfflineError(JavaError):
    """A log directory is used that is already going offline; ends the broker's start."""

    java_class = "org.apache.kafka.common.errors.KafkaStorageException"


class NoSuchElementError(JavaError):
    """No next element; ends the broker's start."""

    java_class = "java.util.NoSuchElementException"


class CorruptRecordError(JavaError):
    """A batch whose size or checksum is wrong."""

    java_class = "org.apache.kafka.common.errors.CorruptRecordException"


class InvalidRecordError(JavaError):
    """A record that cannot be read."""

    java_class = "org.apache.kafka.common.InvalidRecordException"


class InvalidOffsetError(JavaError):
    """An index entry whose offset does not increase."""

    java_class = "org.apache.kafka.common.errors.InvalidOffsetException"


class InvalidProducerEpochError(JavaError):
    """A write by a producer with an older epoch than a later one of its id."""

    java_class = "org.apache.kafka.common.errors.InvalidProducerEpochException"


class OutOfOrderSequenceError(JavaError):
    """A write whose sequence number does not follow the producer's last one."""

    java_class = "org.apache.kafka.common.errors.OutOfOrderSequenceException"


class TransactionCoordinatorFencedError(JavaError):
    """A marker by a transaction coordinator with an older epoch than a later one."""

    java_class = "org.apache.kafka.common.errors.TransactionCoordinatorFencedException"


class InvalidTxnStateError(JavaError):
    """A write outside the producer's open transaction."""

    java_class = "org.apache.kafka.common.errors.InvalidTxnStateException"


class OffsetOverflowError(JavaError):
    """An offset that does not fit the segment's indexes; `segment` must be split."""

    java_class = "org.apache.kafka.common.errors.LogSegmentOffsetOverflowException"

    def __init__(self, segment: object, offset: int) -> None:
        self.segment = segment
        super().__init__(f"offset {offset} does not fit into its segment")


class OffsetOutOfRangeError(JavaError):
    """A read from an offset after the log's end."""

    java_class = "org.apache.kafka.common.errors.OffsetOutOfRangeException"


class IndexOffsetOverflowError(JavaError):
    """A relative offset that does not fit int32."""

    java_class = "org.apache.kafka.storage.internals.log.IndexOffsetOverflowException"


class CorruptIndexError(JavaError):
    """An index that fails its sanity check; the segment is recovered."""

    java_class = "org.apache.kafka.storage.internals.log.CorruptIndexException"


class IllegalArgumentError(JavaError):
    """An impossible argument; ends the broker's start."""

    java_class = "java.lang.IllegalArgumentException"


class FullIndexError(IllegalArgumentError):
    """An index without room for another entry."""


class NumberFormatError(IllegalArgumentError):
    """Text that is not a number; ends the broker's start."""

    java_class = "java.lang.NumberFormatException"


class IllegalStateError(JavaError):
    """An impossible state; ends the broker's start."""

    java_class = "java.lang.IllegalStateException"


class NullPointerError(JavaError):
    """A null where a value is needed; ends the broker's start."""

    java_class = "java.lang.NullPointerException"


class BufferUnderflowError(JavaError):
    """Too few bytes; ends the broker's start."""

    java_class = "java.nio.BufferUnderflowException"


class IndexOutOfBoundsError(JavaError):
    """An index outside its array; ends the broker's start."""

    java_class = "java.lang.IndexOutOfBoundsException"


class TooLargeError(JavaError):
    """A file that is read at once and exceeds a broker's memory; ends its start."""

    java_class = "java.lang.OutOfMemoryError"


def parse_long(text: str) -> int:
    """Parse a number as `Long.parseLong` does. Raises `NumberFormatError` if Java could not parse it."""
    value = parse_java_long(text)
    if value is None:
        raise NumberFormatError(f'For input string: "{text[:60]}"')
    return value


def offset_of(name: str) -> int:
    """Return the offset before the first dot of a file name (`LogFileUtils.offsetFromFileName`). Raises
    `NumberFormatError` if there is no dot or no number before it.
    """
    if "." not in name:
        raise NumberFormatError("begin 0, end -1")  # an index error in Java, which its callers handle in the same way
    return parse_long(name.split(".", 1)[0])


def parse_int(text: str) -> int:
    """Parse a number as `Integer.parseInt` does. Raises `NumberFormatError` if Java could not parse it."""
    value = parse_java_long(text, 32)
    if value is None:
        raise NumberFormatError(f'For input string: "{text[:60]}"')
    return value


def split_on(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split a text as Java's `Pattern.split` does: empty strings at the end are dropped, except a single one."""
    words = pattern.split(text)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def as_printed(exception: object, message: str | None) -> str:
    """Return an exception as Java prints it: the name of its class, and its message if it has one."""
    return f"{exception}: {message}" if message else f"{exception}"
