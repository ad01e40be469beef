"""Decode the records of a batch that come before its damage. They are shown to people, and never returned by
readers.
"""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.common.limits import Limits
from kafkalog.codec.compression import decompress_before_damage
from kafkalog.codec.model import BATCH, Codec, Record, RecordBatch
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.records import records_of
from kafkalog.codec.rules.framing import BATCH_CRC_START, BATCH_MAGIC, MAGIC_POSITION, entry_size

__all__ = ["RecordsBeforeDamage", "records_before_damage"]

_NONE = "no record can be told"
_NEAR = "the last of them may be damaged too: a stream breaks where its damage cannot be overlooked any more"
_WRONG_CHECKSUM = "the checksum does not fit, and nothing tells which of its bytes are right"
_UNPROVEN = "unproven: the checksum does not fit, and any of them may be what is damaged"


class RecordsBeforeDamage(Struct, frozen=True, kw_only=True):
    """Records of one batch, all if it is sound; `batch` has the bytes that exist.

    For a batch with a wrong checksum, records are given only if it is not compressed, because decompressing damaged
    bytes can make records that were never written.
    """

    batch: RecordBatch | None
    """None if there is no complete header of magic 2"""
    records: tuple[Record, ...]
    is_all: bool
    remark: str
    """sentence about how far the records go, and their reliability"""


def records_before_damage(data: bytes, position: int, limits: Limits) -> RecordsBeforeDamage:
    """Decode the record batch (magic 2) at the start of `data`. Return the batch with its records up to the damage, or
    with all records if it is sound. `is_all` is True only if all records are returned and the checksum is right;
    `remark` says how reliable the records are. `position` is the position of the batch in the file, in bytes; `limits`
    bound records and decompression.

    Bad data raises no exception. In these cases no record is decoded, and `remark` says why:

    * the header is incomplete or has another magic; then `batch` is None
    * the size or record count is impossible
    * a complete compressed batch has a wrong checksum
    """
    if len(data) < BATCH.size or data[MAGIC_POSITION] != BATCH_MAGIC:
        return RecordsBeforeDamage(
            batch=None, records=(), is_all=False, remark=f"{_NONE}: no whole header of a batch of magic 2 is there"
        )
    size = entry_size(data, 0)
    header = PLAIN.batch_header(data, 0)
    batch = RecordBatch(header, position, data[: max(size, BATCH.size)])
    count = header.records_count
    if size < BATCH.size or not 0 <= count <= limits.records_per_batch:
        return RecordsBeforeDamage(
            batch=batch, records=(), is_all=False, remark=f"{_NONE}: {size} bytes with {count} records are no batch"
        )
    is_whole = size <= len(data)
    is_proven = is_whole and crc32c(memoryview(data)[BATCH_CRC_START:size]) == header.crc
    if is_whole and not is_proven and header.codec != Codec.NONE:
        return RecordsBeforeDamage(batch=batch, records=(), is_all=False, remark=f"{_NONE}: {_WRONG_CHECKSUM}")
    payload = decompress_before_damage(header.codec, bytes(batch.data[BATCH.size :]), limits)
    raw, problem = PLAIN.records(payload, count, limits)
    records = tuple(records_of(header, raw))
    if problem is None and is_proven:
        return RecordsBeforeDamage(
            batch=batch, records=records, is_all=True, remark=f"all {count} records of the batch"
        )
    why = _NEAR if is_proven else _UNPROVEN if is_whole else "the batch is torn, so that no checksum vouches for them"
    return RecordsBeforeDamage(
        batch=batch,
        records=records,
        is_all=False,
        remark=f"{len(records)} of {count} records of a damaged batch; {why}",
    )
