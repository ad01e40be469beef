"""`kafkalog offsets --format reset-csv`: lines that `kafka-consumer-groups --reset-offsets --from-file` reads."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator

from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.codec.common.errors import UsageError

__all__ = ["reset_lines"]

_UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def reset_lines(committed: Iterable[CommittedOffset], *, with_group: bool) -> Iterator[str]:
    """Yield a CSV line for each commit, without a line end, in the order of `committed`. A line has topic, partition
    and offset; with `with_group` the group comes first. Negative offsets are skipped: clients treat them as no commit,
    and the Kafka command rejects them. If there are several other offsets for one group, topic and partition, only the
    first is used.

    Raises `UsageError` at a group or topic name that has control characters or is not UTF-8, unless its commit is
    skipped.
    """
    seen: set[OffsetKey] = set()
    for committed_offset in committed:
        if committed_offset.key in seen or not committed_offset.is_commit:
            continue
        seen.add(committed_offset.key)
        for name in (committed_offset.key.group, committed_offset.key.topic):
            if _UNFIT.search(name):
                raise UsageError(f"{name!r} cannot be in this file: Kafka reads it line by line, as UTF-8; --group and "
                                 "--topic choose others")  # fmt: skip
        row = [committed_offset.key.topic, committed_offset.key.partition, committed_offset.offset]
        line = io.StringIO()
        csv.writer(line).writerow([committed_offset.key.group, *row] if with_group else row)
        yield line.getvalue().removesuffix("\r\n")
