"""Settings of a producer, named as in Kafka with underscores (`ProducerConfig`).

Defaults are those of the Java client 4.1. Three settings are from the Scala producer (`AsyncProducerConfig`): a limit
for the number of waiting records, what happens when it is reached, and a limit for the records of a batch.
"""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import KIB, MIB
from kafkalog.codec.rules.codec_names import as_codec

__all__ = ["ProducerConfig"]

_LEAST = {
    "batch_size": 0,
    "linger_ms": 0,
    "batch_num_messages": 1,
    "buffer_memory": 1,
    "max_block_ms": 0,
    "queue_buffering_max_messages": 1,
}
_LONG = ("buffer_memory", "max_block_ms")
"""Settings with 64 bits. The others have 32."""
_LARGEST = 2**31 - 1


class ProducerConfig(Struct, frozen=True, kw_only=True):
    """How records wait and are written. Sizes are in bytes, `_ms` in ms. Raises `UsageError` for an invalid value."""

    producer_type: str = "async"
    """`sync` writes within `send`. `async` collects batches, written by a thread."""
    batch_size: int = 16 * KIB
    """A batch is full when one more record would exceed this size before compression, or the maximum of the log."""
    linger_ms: int = 5
    """Time after which a batch that is not full is written, from its first record on. Formerly
    `queue.buffering.max.ms`.
    """
    batch_num_messages: int | None = None
    """A batch with this many records is full. From the Scala producer, where the default was 200."""
    buffer_memory: int = 32 * MIB
    """Bytes of records that may wait to be written."""
    max_block_ms: int = 60_000
    """How long `send` waits for `buffer_memory`. Then it raises `QueueFullError`."""
    queue_buffering_max_messages: int | None = None
    """Number of records that may wait to be written. From the Scala producer, where the default was 10,000."""
    queue_enqueue_timeout_ms: int = -1
    """How long `send` waits while that many records wait. 0 drops the record at once, -1 waits forever."""
    compression_type: str = "none"
    """Compression of batches."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} is {value}; the smallest possible value is {least}")
            if value is not None and name not in _LONG and value > _LARGEST:
                raise UsageError(f"{name} is {value}; the largest possible value is {_LARGEST}")
        if self.producer_type not in ("sync", "async"):
            raise UsageError(f"producer_type is sync or async, not {self.producer_type!r}")
        as_codec(self.compression_type)
