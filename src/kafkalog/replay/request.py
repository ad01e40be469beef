"""The request to replay records into a live cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from kafkalog.codec.common.arguments import TIMES, Bounds, check_fields
from kafkalog.codec.common.options import Option
from kafkalog.codec.compression.specs import KAFKA_SPECS
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["Replay"]

_COMPRESSIONS = tuple(spec.codec.label for spec in KAFKA_SPECS.values())
_IDENTITY = "Identifies this replay in the target [derived from the paths]."
_KEEP_SETTINGS = "Create topics with their original retention and compaction [nothing expires]."
_ACCEPT_LOSS = "Proceed even if retention would remove records at once, or some cannot be read."


class Replay(Struct, frozen=True, kw_only=True):
    """Request to `plan_replay` and `replay`."""

    replica: PathLike | None = None
    """directory to read if a topic-partition is in two of them"""
    select: Selection = ALL
    """topic-partitions to replay"""
    renamed: Annotated[
        Mapping[str, str],
        Option("--rename", "Another name for a topic in the target; may be repeated.", "OLD=NEW"),
    ] = {}
    """name of a topic in the source -> its name in the target"""
    prefix: Annotated[str, Option("--prefix", "Prefix of the names of all other topics in the target.", "TEXT")] = ""
    """prefix of the names of all other topics in the target"""
    identity: Annotated[str | None, Option("--id", _IDENTITY, "ID")] = None
    """identifies the replay in the target; None: derived from the paths"""
    replication: int = -1
    """replication factor of topics that are created; -1: the cluster's default"""
    keep_settings: Annotated[bool, Option("--keep-retention", _KEEP_SETTINGS)] = False
    """create topics with their old retention and compaction"""
    accept_loss: Annotated[bool, Option("--accept-loss", _ACCEPT_LOSS)] = False
    """proceed even if retention would remove records at once, or some cannot be read"""
    with_groups: bool = True
    """also set the committed offsets of consumer groups"""
    configs: Mapping[str, str] = {}
    """additional settings of all topics that are created"""
    client: Mapping[str, str] = {}
    """settings of the connection under librdkafka's names"""
    compression: Annotated[
        str, Option("--compression", "Compression of the batches that are sent.", choices=_COMPRESSIONS)
    ] = "lz4"
    """compression of the batches that are sent"""
    bytes_per_second: Annotated[
        int | None,
        Option("--rate", "Upper bound of the rate, in bytes of records per second.", "BYTES", within=(1, 1 << 40)),
    ] = None
    """upper bound of the rate, bytes of records per second"""
    now: Annotated[int | None, Bounds(TIMES)] = None
    """time to treat as now, ms since 1970; None: the current time"""
    start_offset: int | None = None
    """first offset of each partition"""
    end_offset: int | None = None
    """offset after the last one of each partition"""
    start_time: int | None = None
    """smallest timestamp of records, ms since 1970"""
    end_time: int | None = None
    """timestamp that all records are below, ms since 1970"""
    append: Annotated[bool, Option("--append", "Append to topics of the target that contain records of "
        "others.")] = False
    """append to topics of the target that contain records of others"""
    abort_open: bool = False
    """treat undecided transactions as aborted, as their coordinator does after the timeout"""

    def __post_init__(self) -> None:
        check_fields(self)
