"""Print the state of share groups, for `groups` and `offsets`."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.groups.share_state import SharePartition
from kafkalog.cluster.questions.offsets import ShareOffset

__all__ = ["print_share_state"]

_SHOWN = 6
"""state batches of one partition"""


def _batches(state: SharePartition) -> str:
    """Return the first `_SHOWN` batches of a share-partition as text, such as `5-9 acknowledged x1, 12-12 available
    x2`: first and last offset (inclusive), state, and delivery count. If there are more batches, the text ends in `and
    N more`; empty without batches.
    """
    words = [
        f"{each.first_offset}-{each.last_offset} {each.state} x{each.delivery_count}" for each in state.batches[:_SHOWN]
    ]
    more = len(state.batches) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def print_share_state(shares: Sequence[ShareOffset]) -> None:
    """Print a table of share-partitions on standard output, one row each; prints nothing if `shares` is empty. A
    negative start offset or write time (none known) is an empty cell.
    """
    if not shares:
        return
    columns: list[str | Column] = [
        "group",
        "topic",
        "partition",
        "start",
        Column("log end", if_any=True),
        Column("lag", if_any=True),
        Column("batches", wraps=True, if_any=True),
        Column("written", Kind.TIME, drop=1),
        Column("in", drop=3),
        Column("at", drop=2),
    ]
    rows = []
    for share in shares:
        share_partition = share.state
        rows.append([
            share_partition.group,
            share_partition.topic or share_partition.topic_id,
            share_partition.partition,
            share_partition.start_offset if share_partition.start_offset >= 0 else None,
            share.log_end_offset,
            share.lag,
            _batches(share_partition),
            share_partition.write_timestamp if share_partition.write_timestamp >= 0 else None,
            share_partition.log_partition,
            share_partition.log_offset,
        ])  # fmt: skip
    print_table("share groups", columns, rows)
