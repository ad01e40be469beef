"""The caps that keep hostile bytes from costing memory or time.

Every size, count, ratio and depth that a file can declare is compared with one of these (or with the bytes that are
left) before anything is allocated.  Kafka itself has no such caps on read; where it has one on write, it is named.
"""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.arguments import check_fields
from kafkalog.environment import number_of

__all__ = ["DEFAULT_LIMITS", "KIB", "MIB", "UNPACKED_BYTES", "Limits"]

UNPACKED_BYTES = "KAFKALOG_DECOMPRESSED_BATCH_BYTES"
"""environment variable with `decompressed_batch_bytes` of every command and query"""
KIB = 1024
MIB = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """Upper bounds for one batch; raise a field with `dataclasses.replace` when data legitimately needs it.

    All sizes are bytes; a value that is not a 64-bit number is a `UsageError`.  Hitting a cap gives `LimitExceeded` or
    a finding that names the field.
    """

    batch_bytes: int = 2**31 - 1 + 12
    """One whole batch, header included.  The format's own maximum: an int32 length after 12 bytes."""

    decompressed_batch_bytes: int = 128 * MIB
    """The records of one batch after decompression.  Brokers accept about 1 MiB compressed by default."""

    records_per_batch: int = MIB
    """Records in one batch; each takes at least 7 bytes, and 300 or more as a Python object."""

    headers_per_record: int = MIB
    """Headers of one record; each takes at least 2 bytes."""

    zstd_window_bytes: int = 128 * MIB
    """Window that a zstd frame may ask for; level 22 of Kafka's producers asks for this, and Kafka reads no larger."""

    read_window_bytes: int = 4 * MIB
    """How much of a file is held at once while walking it, unless one batch is larger."""

    checkpoint_bytes: int = 8 * MIB
    """A text checkpoint, `meta.properties` or another small file that is read whole: 100,000 partitions and more."""

    snapshot_bytes: int = 512 * MIB
    """A producer snapshot: 46 bytes a producer."""

    def __post_init__(self) -> None:
        check_fields(self)


def _from_environment() -> Limits:
    """The limits of this process; a value that is not a positive number of bytes is as if it were not there."""
    given = number_of(UNPACKED_BYTES, 2**40)
    return Limits() if given is None else Limits(decompressed_batch_bytes=given)


DEFAULT_LIMITS = _from_environment()
