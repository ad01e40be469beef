"""The parts of Java that decide outcomes: exception classes, fixed-width arithmetic, hash order, number parsing."""

from __future__ import annotations

import re

from kafkalog.codec.common.java_map import JavaHashMap
from kafkalog.codec.errors import PortableError
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
    "int64",
    "offset_of",
    "parse_int",
    "parse_long",
    "split_on",
]


class JavaError(PortableError):
    """An exception of the broker; `java_class` is its class there."""

    java_class = "java.lang.Exception"
    position: int | None = None
    """of the batch that causes it, where one does"""
    segment_path: str | None = None
    """of the log file that holds the batch"""

    def at(self, position: int | None, segment_path: str | None = None) -> JavaError:
        """Note where it comes from, unless that is known already; the exception itself."""
        self.position = position if self.position is None else self.position
        self.segment_path = segment_path if self.segment_path is None else self.segment_path
        return self


class JavaIOError(JavaError):
    """Takes the log directory offline."""

    java_class = "java.io.IOException"


class NoSuchFileError(JavaIOError):
    """A file is missing."""

    java_class = "java.nio.file.NoSuchFileException"


class KafkaError(JavaError):
    """Kafka's general error; ends the broker's start."""

    java_class = "org.apache.kafka.common.KafkaException"


class KafkaStorageError(JavaError):
    """Wraps an I/O error; takes the log directory offline."""

    java_class = "org.apache.kafka.common.errors.KafkaStorageException"


class AlreadyOfflineError(JavaError):
    """Something was asked of a directory that is to go offline already; this one ends the broker's start."""

    java_class = "org.apache.kafka.common.errors.KafkaStorageException"


class NoSuchElementError(JavaError):
    """Ends the broker's start."""

    java_class = "java.util.NoSuchElementException"


class CorruptRecordError(JavaError):
    """A batch whose size or checksum is wrong."""

    java_class = "org.apache.kafka.common.errors.CorruptRecordException"


class InvalidRecordError(JavaError):
    """A record that cannot be read."""

    java_class = "org.apache.kafka.common.InvalidRecordException"


class InvalidOffsetError(JavaError):
    """An index entry that would not increase."""

    java_class = "org.apache.kafka.common.errors.InvalidOffsetException"


class InvalidProducerEpochError(JavaError):
    """A write of a producer that a newer one of the same id has replaced."""

    java_class = "org.apache.kafka.common.errors.InvalidProducerEpochException"


class OutOfOrderSequenceError(JavaError):
    """A write that does not go on where its producer's last one ended."""

    java_class = "org.apache.kafka.common.errors.OutOfOrderSequenceException"


class TransactionCoordinatorFencedError(JavaError):
    """A marker of a coordinator that a newer one has replaced."""

    java_class = "org.apache.kafka.common.errors.TransactionCoordinatorFencedException"


class InvalidTxnStateError(JavaError):
    """A write outside of the transaction that its producer has open."""

    java_class = "org.apache.kafka.common.errors.InvalidTxnStateException"


class OffsetOverflowError(JavaError):
    """An offset that the segment's indexes cannot hold; `segment` is to be split."""

    java_class = "org.apache.kafka.common.errors.LogSegmentOffsetOverflowException"

    def __init__(self, segment: object, offset: int) -> None:
        self.segment = segment
        super().__init__(f"offset {offset} does not fit into its segment")


class OffsetOutOfRangeError(JavaError):
    """A read from an offset after the log's end."""

    java_class = "org.apache.kafka.common.errors.OffsetOutOfRangeException"


class IndexOffsetOverflowError(JavaError):
    """A relative offset that does not fit into int32."""

    java_class = "org.apache.kafka.storage.internals.log.IndexOffsetOverflowException"


class CorruptIndexError(JavaError):
    """An index that fails its sanity check; the segment is recovered."""

    java_class = "org.apache.kafka.storage.internals.log.CorruptIndexException"


class IllegalArgumentError(JavaError):
    """Ends the broker's start."""

    java_class = "java.lang.IllegalArgumentException"


class FullIndexError(IllegalArgumentError):
    """An index without room for one more entry."""


class NumberFormatError(IllegalArgumentError):
    """Ends the broker's start."""

    java_class = "java.lang.NumberFormatException"


class IllegalStateError(JavaError):
    """Ends the broker's start."""

    java_class = "java.lang.IllegalStateException"


class NullPointerError(JavaError):
    """Ends the broker's start."""

    java_class = "java.lang.NullPointerException"


class BufferUnderflowError(JavaError):
    """Ends the broker's start."""

    java_class = "java.nio.BufferUnderflowException"


class IndexOutOfBoundsError(JavaError):
    """Ends the broker's start."""

    java_class = "java.lang.IndexOutOfBoundsException"


class TooLargeError(JavaError):
    """A file that a broker reads whole and that is larger than it could hold; ends the broker's start."""

    java_class = "java.lang.OutOfMemoryError"


def parse_long(text: str) -> int:
    """`Long.parseLong`."""
    value = parse_java_long(text)
    if value is None:
        raise NumberFormatError(f'For input string: "{text[:60]}"')
    return value


def offset_of(name: str) -> int:
    """The offset that a file name begins with (`LogFileUtils.offsetFromFileName`)."""
    if "." not in name:
        raise NumberFormatError("begin 0, end -1")  # an index error in Java, which all who ask treat alike
    return parse_long(name.split(".", 1)[0])


def parse_int(text: str) -> int:
    """`Integer.parseInt`."""
    value = parse_java_long(text, 32)
    if value is None:
        raise NumberFormatError(f'For input string: "{text[:60]}"')
    return value


def split_on(pattern: re.Pattern[str], text: str) -> list[str]:
    """`Pattern.split`: empty strings at the end are dropped."""
    words = pattern.split(text)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words
