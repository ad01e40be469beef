"""Limits that protect memory and time from hostile bytes. Every size, count, ratio and depth in a file is compared with
a limit (or with the bytes left) before memory is allocated. Kafka has no such limits for reading; if it has one for
writing, the field names it.
"""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.environment import number_of

__all__ = ["DEFAULT_LIMITS", "KIB", "MIB", "UNPACKED_BYTES", "Limits"]

UNPACKED_BYTES = "KAFKALOG_DECOMPRESSED_BATCH_BYTES"
"""environment variable that sets `decompressed_batch_bytes` for every command and query"""
KIB = 1024
MIB = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """Upper bounds for one batch; change a field with `msgspec.structs.replace` if data legitimately needs more. All
    sizes are in bytes. A value that is not a 64-bit number raises `UsageError`. Exceeding a limit raises
    `LimitExceeded` or makes a finding, and both name the field.
    """

    batch_bytes: int = 2**31 - 1 + 12
    """One whole batch with its header. This is the format's own maximum: an int32 length after 12 bytes."""

    decompressed_batch_bytes: int = 128 * MIB
    """The records of one batch after decompression. By default brokers accept about 1 MiB compressed."""

    records_per_batch: int = MIB
    """Records in one batch. Each takes at least 7 bytes, and 300 or more as a Python object."""

    headers_per_record: int = MIB
    """Headers of one record. Each takes at least 2 bytes."""

    zstd_window_bytes: int = 128 * MIB
    """Window of a zstd frame. The default is what level 22 of Kafka's producers needs, and the largest that Kafka
    reads.
    """

    read_window_bytes: int = 4 * MIB
    """Bytes of a file that a scan holds at once, unless one batch is larger."""

    checkpoint_bytes: int = 8 * MIB
    """A text checkpoint, `meta.properties` or another small file that is read at once; enough for 100,000
    partitions.
    """

    snapshot_bytes: int = 512 * MIB
    """A producer snapshot, which has 46 bytes for each producer."""

    def __post_init__(self) -> None:
        check_fields(self)


def _from_environment() -> Limits:
    """Return the limits of this process. A value in the environment that is not a positive number of bytes is
    ignored.
    """
    unpacked_bytes = number_of(UNPACKED_BYTES, 2**40)
    return Limits() if unpacked_bytes is None else Limits(decompressed_batch_bytes=unpacked_bytes)


DEFAULT_LIMITS = _from_environment()
