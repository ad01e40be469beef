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
    and the Kafka command rejects them. Of several other commits of one group, topic and partition only the first has a
    line.

    Raises `UsageError` at a line whose group or topic name has control characters or is not UTF-8.
    """
    seen: set[OffsetKey] = set()
    for committed_offset in committed:
        key = committed_offset.key
        if key in seen or not committed_offset.is_commit:
            continue
        seen.add(key)
        names = [key.group, key.topic] if with_group else [key.topic]
        for name in names:
            if _UNFIT.search(name):
                raise UsageError(f"{name!r} cannot be in this file: Kafka reads it line by line, as UTF-8; --group and "
                                 "--topic choose others")  # fmt: skip
        line = io.StringIO()
        csv.writer(line).writerow([*names, key.partition, committed_offset.offset])
        yield line.getvalue().removesuffix("\r\n")
