"""Several fetches at once, each with its own result (`SimpleConsumer.multifetch`)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kafkalog.codec.common.arguments import checked, shown
from kafkalog.codec.common.errors import FormatError, LimitExceeded, UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.files.fetch_result import ErrorCode, MessageSetSend
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.reading.consumer_view import Reset
from kafkalog.log.reading.fetch import Chunk, OffsetOutOfRangeError

__all__ = ["Fetched", "multifetch"]

_CHUNK = 64 * MIB


@checked()
class Fetched(Struct, frozen=True):
    """Result of one fetch: a chunk, or the error code a broker would return and an explanation."""

    topic: str
    partition: int
    error_code: ErrorCode
    chunk: Chunk | None = None
    error: str = ""

    def to_message_set_send(self, *, magic: int | None = None) -> MessageSetSend:
        """Return the batches as part of a multi-fetch response; see `Chunk.to_message_set_send`."""
        if self.chunk is None:
            return MessageSetSend(self.error_code, b"")
        return self.chunk.to_message_set_send(magic=magic)


def multifetch(
    log_dir: LogDir, fetches: Iterable[tuple[tuple[str, int], int, int]], *, reset: Reset | None = None
) -> list[Fetched]:
    """Answer fetches ((topic, partition), offset, max_bytes) independently; return one result for each, in order.

    Each result has its own error: a size below 1, unknown partition, offset out of range (unless `reset` says where to
    read instead), damage at the offset, or a batch larger than a chunk may be. Raises `UsageError` for an invalid
    fetch, `StorageError` if a file cannot be read.

    * `log_dir`: from `open_log_dir`
    * `fetches`: the requests, answered in this order
    """
    return [_fetched(log_dir, fetch, reset) for fetch in fetches]


def _fetched(log_dir: LogDir, fetch: object, reset: Reset | None) -> Fetched:
    match fetch:
        case ((str(topic), int(partition)), int(offset), int(max_bytes)):
            pass
        case _:
            raise UsageError(f"{shown(fetch)} is not a fetch: ((topic, partition), offset, max_bytes)")
    if max_bytes < 1:
        return Fetched(topic, partition, ErrorCode.INVALID_FETCH_SIZE, error=f"a fetch of {max_bytes} bytes")
    if (topic, partition) not in log_dir:
        return Fetched(topic, partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error=f"there is no {topic}-{partition}")
    try:
        chunk = log_dir[topic, partition].read(offset, max_bytes, max_chunk_bytes=max(max_bytes, _CHUNK), reset=reset)
    except OffsetOutOfRangeError as error:
        return Fetched(topic, partition, ErrorCode.OFFSET_OUT_OF_RANGE, error=str(error))
    except LimitExceeded as error:
        return Fetched(topic, partition, ErrorCode.MESSAGE_SIZE_TOO_LARGE, error=str(error))
    except FormatError as error:
        return Fetched(topic, partition, ErrorCode.INVALID_MESSAGE, error=str(error))
    return Fetched(topic, partition, ErrorCode.NO_ERROR, chunk)
