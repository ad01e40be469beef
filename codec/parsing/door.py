"""Parse bytes to values and build them again: the public `kafkalog.codec.parse` and `build`. A value is
a Construct container of the fields, under the names of docs/format. If it is changed and built again, lengths, counts
and checksums are computed. Base offset, last offset delta and largest timestamp keep their values, because compaction
and LogAppendTime require it (`with_timestamps` changes the largest timestamp too).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from construct import Construct, ConstructError, Container

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.layout import record_batch
from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.model import NO_TIMESTAMP
from kafkalog.codec.parsing import text_layouts, whole
from kafkalog.codec.parsing.reference import missing_field
from kafkalog.codec.parsing.trace import Traced

__all__ = ["LAYOUTS", "build", "layout_of", "parse", "with_timestamps"]

LAYOUTS: Mapping[str, Construct] = {
    "entry": whole.ENTRY,
    "log": whole.ENTRIES,
    "message_v0": whole.MESSAGE_V0,
    "message_v1": whole.MESSAGE_V1,
    "record_batch": whole.RECORD_BATCH,
    "record": whole.RECORD,
    "control_record_key": record_batch.CONTROL_RECORD_KEY,
    "end_transaction_marker": record_batch.END_TRANSACTION_MARKER,
    "offset_index": whole.OFFSET_INDEX,
    "time_index": whole.TIME_INDEX,
    "transaction_index": whole.TRANSACTION_INDEX,
    "producer_snapshot": whole.PRODUCER_SNAPSHOT,
    "fetch_result": whole.FETCH_RESULT,
    "multi_fetch_result": whole.MULTI_FETCH_RESULT,
    "offset_checkpoint": text_layouts.OFFSET_CHECKPOINT,
    "leader_epoch_checkpoint": text_layouts.LEADER_EPOCH_CHECKPOINT,
    "partition_metadata": text_layouts.PARTITION_METADATA,
    "meta_properties": text_layouts.META_PROPERTIES,
    "clean_shutdown": text_layouts.CLEAN_SHUTDOWN,
    "quorum_state": text_layouts.QUORUM_STATE,
}
"""Declarations that `parse` and `build` accept, by name."""


def layout_of(what: str) -> Construct:
    """Return the declaration of a structure as a Construct object. `what` is a name in `LAYOUTS`; raises `UsageError`
    for any other.
    """
    if what not in LAYOUTS:
        raise UsageError(f"{what!r} is not a structure; these are: {', '.join(LAYOUTS)}")
    return LAYOUTS[what]


def parse(
    data: bytes | memoryview, what: str = "entry", *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Any:
    """Parse one structure that fills all of `data`; return a container of fields, or a list of such containers. `what`
    is a name in `LAYOUTS`: an `entry` is one batch or message of any magic, a `log` is a list of entries. Raises
    `FormatError` if the bytes are anything else or exceed `limits`. The error has the position from the start of `data`
    (0 if unknown), and the path of the field if one is at fault. It also has `source`, a file name for the message
    only. Raises `UsageError` for an unknown `what`.
    """
    tree = layout_of(what)
    view = bytes(data)
    try:
        if isinstance(tree, Traced):
            value, end = tree.parse_whole(view, limits)
        else:
            value, end = tree.parse(view), tree.sizeof()
    except LayoutError as error:
        raise FormatError(
            error.detail, position=error.position, field=error.path, source=source, code=error.code
        ) from None
    except ConstructError as error:
        raise FormatError(str(error).splitlines()[-1], position=0, field=error.path, source=source) from None
    if end != len(view):
        raise FormatError(f"{len(view) - end} bytes after the end of a {what}", position=end, source=source)
    return value


def build(value: Any, what: str = "entry") -> bytes:
    """Build the bytes of one structure from `value`, a container like those that `parse` returns. `what` is a name in
    `LAYOUTS`. Lengths, counts and checksums are computed. Contents are compressed again only if the stored `compressed`
    bytes (for a wrapper message, its `value`) do not decompress to exactly these contents. Raises `FormatError` for a
    value that does not fit, with the name of its field if that is known. Raises it also for a compression that the
    magic does not have. Raises `UsageError` for an unknown `what`, and for a missing field that is not computed and has
    no default.
    """
    layout = layout_of(what)
    try:
        return bytes(layout.build(value))
    except ConstructError as error:
        detail = error.detail if isinstance(error, LayoutError) else str(error).splitlines()[-1]
        raise FormatError(detail, field=error.path) from None
    except KeyError as error:
        raise missing_field(what, error) from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise FormatError(f"these are not the fields of a {what}: {type(error).__name__}: {error}") from None


def with_timestamps(entry: Mapping[str, Any], change: Callable[[int], int]) -> Container:
    """Return a copy of `entry`, a container that `parse` returned, with `change` applied to the timestamp of every
    record (ms, as a consumer gets it). Base timestamp, deltas and largest timestamp of a batch are adapted, but a
    delete horizon is kept. A wrapper message gets the largest timestamp of its messages. With LogAppendTime `change` is
    applied to the entry's one timestamp, even if it has no records. Otherwise a batch without records keeps its
    timestamps. Raises `UsageError` for magic 0, which has no timestamps.
    """
    changed: Container = deepcopy(Container(entry))
    if changed.magic == 0:
        raise UsageError("messages of magic 0 have no timestamps")
    if changed.attributes.timestamp_type:
        name = "max_timestamp" if changed.magic > 1 else "timestamp"
        changed[name] = change(changed[name])
    elif changed.magic == 1:
        _change_message(changed, change)
    else:
        _change_batch(changed, change)
    return changed


def _change_message(message: Container, change: Callable[[int], int]) -> None:
    if message.messages is None:
        message.timestamp = change(message.timestamp)
        return
    for inner in message.messages:
        if inner.magic > 0:
            inner.timestamp = change(inner.timestamp)
    message.timestamp = max((inner.get("timestamp", NO_TIMESTAMP) for inner in message.messages), default=NO_TIMESTAMP)


def _change_batch(batch: Container, change: Callable[[int], int]) -> None:
    times = [change(batch.base_timestamp + record.timestamp_delta) for record in batch.records]
    if not times:
        return
    if not batch.attributes.has_delete_horizon:
        batch.base_timestamp = times[0]
    for record, time in zip(batch.records, times, strict=True):
        record.timestamp_delta = time - batch.base_timestamp
    batch.max_timestamp = max(times)
