"""The request to replay records into a live cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from kafkalog.codec.arguments import check_fields
from kafkalog.codec.common.asked import Option
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["Replay"]

_IDENTITY = "Tells this replay from others in the target [derived from the paths]."
_KEEP_SETTINGS = "Make topics with their old retention and compaction [nothing expires]."
_ACCEPT_LOSS = "Proceed even if retention would remove records at once, or damage hides some."


class Replay(Struct, frozen=True, kw_only=True):
    """A request to `plan_replay` and `replay`: which records are written into a live cluster, and how."""

    replica: PathLike | None = None
    """which directory to read if a topic-partition is in two of them"""
    select: Selection = ALL
    """which topic-partitions"""
    renamed: Annotated[
        Mapping[str, str],
        Option("--rename", "Another name for a topic in the target; may be repeated.", "OLD=NEW"),
    ] = {}
    """names of topics in the target, by those in the source"""
    prefix: Annotated[str, Option("--prefix", "What the names of all other topics begin with there.", "TEXT")] = ""
    """what the names of all other topics begin with in the target"""
    identity: Annotated[str | None, Option("--id", _IDENTITY, "ID")] = None
    """tells one replay from another in the target; None: it is derived from the paths"""
    replication: int = -1
    """replicas of the topics that are made; -1: the cluster's default"""
    keep_settings: Annotated[bool, Option("--keep-retention", _KEEP_SETTINGS)] = False
    """make topics with their old retention and compaction"""
    accept_loss: Annotated[bool, Option("--accept-loss", _ACCEPT_LOSS)] = False
    """go on even if retention would remove records at once, or damage hides some"""
    with_groups: bool = True
    """also set the committed offsets of consumer groups"""
    configs: Mapping[str, str] = {}
    """further settings of all topics that are made"""
    client: Mapping[str, str] = {}
    """librdkafka's own settings of the connection"""
    compression: Annotated[str, Option("--compression", "How the records are compressed on their way.")] = "lz4"
    """how records are compressed on their way"""
    bytes_per_second: Annotated[
        int | None, Option("--rate", "At most so many bytes of records in a second.", "BYTES")
    ] = None
    """at most so many bytes of records in a second"""
    now: int | None = None
    """the time to treat as now, ms since 1970; None: the clock's"""
    start_offset: int | None = None
    """first offset of each partition"""
    end_offset: int | None = None
    """offset after the last one of each partition"""
    start_time: int | None = None
    """ms since 1970: only records with at least this timestamp"""
    end_time: int | None = None
    """ms since 1970: only records with a smaller timestamp"""
    append: Annotated[bool, Option("--append", "Write behind the records of others in topics that are there.")] = False
    """write behind the records of others that a topic of the target has"""
    abort_open: bool = False
    """count transactions that nobody has decided as aborted, as their coordinator does after their timeout"""

    def __post_init__(self) -> None:
        check_fields(self)
