"""Commands with which a consumer group skips a batch that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import parse_partition_directory

__all__ = ["is_inside_batch", "seeks_past", "unread_text"]

_SHOWN = 5
_INSIDE_BATCH = codes_with(Trait.INSIDE_BATCH) - {FindingCode.LIMIT_EXCEEDED}


def seeks_past(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield sentences with the `kafka-consumer-groups.sh` commands that move a group past unreadable batches. There is
    one for each partition and offset of the findings. At most `_SHOWN` are yielded, and a last sentence counts the
    others.

    A finding must have a last offset and be about a live partition directory; others are skipped. Findings about
    exceeded limits of kafkalog are skipped too, because Kafka has no such limits.
    """
    places: dict[tuple[str, int], None] = {}
    for finding in findings:
        if finding.last_offset is None or finding.file is None or finding.code is FindingCode.LIMIT_EXCEEDED:
            continue  # what is larger than our limits stops nobody
        name = parse_partition_directory(os.path.basename(os.path.dirname(os.path.abspath(finding.file))))
        if name is not None and not name.state.value:
            places[f"{name.topic}:{name.partition}", finding.last_offset + 1] = None
    for place, offset in [*places][:_SHOWN]:
        yield (
            "consumers stop there; a group that stands there passes it with: kafka-consumer-groups.sh "
            f"--bootstrap-server HOST:PORT --group GROUP --topic {shell_word(place)} --reset-offsets "
            f"--to-offset {offset} --execute"
        )
    if len(places) > _SHOWN:
        yield f"and {len(places) - _SHOWN} more places where consumers stop"


def is_inside_batch(finding: Finding) -> bool:
    """Whether the finding is about a batch whose checksum is right and whose records no consumer can read."""
    return finding.code in _INSIDE_BATCH


def unread_text(findings: Iterable[Finding]) -> str:
    """Return a clause about batches whose checksum is right but whose records cannot be read: the first offsets at
    which consumers stop, and the number of offsets in all these batches. Empty if no finding is about such a batch with
    its offsets in a live partition directory.
    """
    places: dict[str, int] = {}
    for finding in findings:
        directory = os.path.basename(os.path.dirname(os.path.abspath(finding.file or "")))
        name = parse_partition_directory(directory)
        if (
            is_inside_batch(finding) and name is not None and not name.state.value
            and finding.offset is not None and finding.last_offset is not None
        ):  # fmt: skip
            places[f"{finding.offset} of {directory}"] = finding.last_offset - finding.offset + 1
    if not places:
        return ""
    offsets = counted(sum(places.values()), "offset")
    stops = first_of(list(places), _SHOWN)
    return f"consumers stop at {stops}: {offsets} in batches that cannot be read (runbook: poison-record)"
