"""Describe the losses of a way of recovering as text; no sum is presented as complete if a part of it is unknown."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import structs

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted, first_of, plural
from kafkalog.recovery.broker.node.answer import ConsequenceKind, LostDirectoryConsequence, NodeStart
from kafkalog.recovery.decide.ways import Measured

__all__ = [
    "UNLESS_ELSEWHERE", "effect_of", "first_names", "from_copies_text", "lost_beside", "lost_text", "readable_text",
    "records_text", "repeats_text", "sentence_of_lost", "skipped_text",
]  # fmt: skip

_NAMED = 3
UNLESS_ELSEWHERE = "unless another of its log.dirs, which was not given, has them"
"""of partitions that are in none of the given log directories of a broker"""


def lost_text(found: Measured, number: Callable[[int], str] = str) -> str:
    """Return the number of lost records as text for a table, formatted by `number`: "7"; "about 7" if it is not exact;
    "7 at most" if only offsets are counted or another replica may have all; "3 to 7" if another replica may have some.
    "unknown" if the number is None, or 0 but not exact.

    If some damaged places could not be counted, the text is "7 or more", or "about 7+" if the number is partly derived
    from offsets. Both leave out the records that another replica may have. The text is "7+ offsets" if only offsets are
    counted and no other replica may have any.
    """
    if found.records_lost is None or (found.records_lost == 0 and not found.is_exact):
        return "unknown"
    if found.perhaps_elsewhere:
        surely = number(found.records_lost - found.perhaps_elsewhere)
        if found.uncounted:
            return f"about {surely}+" if found.is_estimate else f"{surely} or more"
        most = number(found.records_lost)
        return f"{most} at most" if found.records_lost == found.perhaps_elsewhere else f"{surely} to {most}"
    text = number(found.records_lost)
    if found.uncounted and not _is_of_offsets(found):
        return f"about {text}+" if found.is_estimate else f"{text} or more"
    if found.uncounted:
        return f"{text}+ {plural(found.records_lost, 'offset')}"
    if _is_of_offsets(found):
        return f"{text} at most"
    return text if found.is_exact else f"about {text}"


def _is_of_offsets(found: Measured) -> bool:
    """Whether the number of lost records is one of offsets alone."""
    return not found.is_exact and found.of_offsets == found.records_lost


def records_text(found: Measured) -> str:
    """Return the number of lost records as text:

    * `no record` or `7 records`; `about 7 records` if the number is not exact
    * `7 offsets, at most as many records` if only offsets are counted; transaction markers have offsets too
    * `an unknown number of records` if the number is None, or 0 but not exact; with `, perhaps none` if it is 0 and
      only zeros are not counted
    * `at most 7 records, perhaps none` if another replica may have all, `3 to 7 records` if it may have some
    * if some damaged places could not be counted: `at least 7 records`, `about 7 records and an unknown number more` if
      the number is partly derived from offsets, `7 offsets or more, an unknown number of records` if only offsets are
      counted; without the records that another replica may have, and `an unknown number of records, perhaps none` if
      none remain
    """
    if found.records_lost is None or (found.records_lost == 0 and not found.is_exact):
        is_zeros = found.records_lost == 0 and 0 < found.uncounted == found.uncounted_zeros
        return f"an unknown number of records{', perhaps none' if is_zeros else ''}"
    if found.records_lost == 0:
        return "no record"
    if found.perhaps_elsewhere:
        return _elsewhere_text(found, found.records_lost - found.perhaps_elsewhere)
    lost = counted(found.records_lost, "record")
    if found.uncounted and _is_of_offsets(found):
        return f"{counted(found.records_lost, 'offset')} or more, an unknown number of records"
    if found.uncounted:
        return f"about {lost} and an unknown number more" if found.is_estimate else f"at least {lost}"
    if _is_of_offsets(found):
        return f"{counted(found.records_lost, 'offset')}, at most as many records"
    return lost if found.is_exact else f"about {lost}"


def _elsewhere_text(found: Measured, surely: int) -> str:
    """Return `records_text` for a loss of which another replica may have all but `surely` records."""
    if found.uncounted and not surely:
        return "an unknown number of records, perhaps none"
    if found.uncounted:
        return records_text(structs.replace(found, records_lost=surely, perhaps_elsewhere=0))
    most = counted(found.records_lost or 0, "record")
    return f"{surely} to {most}" if surely else f"at most {most}, perhaps none"


def sentence_of_lost(found: Measured) -> str:
    """Return text to follow "it loses": the number of lost records (`records_text`), and the number of kept records
    that consumers may skip, if it is not 0. The text is "nothing" if both are known to be 0.
    """
    if found.records_lost == 0 and found.is_exact and not found.records_hidden:
        return "nothing"
    lost = records_text(found)
    if not found.records_hidden:
        return lost
    kept = counted(found.records_hidden, "record")
    return f"{lost}, but consumers may skip {kept} that {'is' if found.records_hidden == 1 else 'are'} kept"


def effect_of(found: Measured, subject: str = "it loses") -> str:
    """Return a clause about what a way loses, which begins with `subject`; what was lost before it is named so."""
    lost = sentence_of_lost(found)
    is_before = found.is_lost_before and lost != "nothing"
    return f"{subject} nothing; lost before: {lost}" if is_before else f"{subject} {lost}"


def repeats_text(found: Measured) -> str:
    """Return text to follow the offsets of lost records if there are more records than offsets; empty if not, or if the
    number of either is unknown.
    """
    lasts = [lost_range.last for lost_range in found.lost]
    offsets = sum(last - each.first + 1 for each, last in zip(found.lost, lasts, strict=True) if last is not None)
    is_more = offsets and None not in lasts and (found.records_lost or 0) > offsets
    return " (some of them written twice)" if is_more else ""


def readable_text(found: Measured) -> str:
    """Return a clause about the lost records that can still be read, to follow their number; "" if there are none."""
    if found.sound_lost == found.records_lost == 1 and not found.uncounted:
        return "the lost record can still be read"
    return f"{found.sound_lost} of the lost ones can still be read" if found.sound_lost else ""


def from_copies_text(found: Measured) -> str:
    """Return text to follow the lost records of a way: how many it puts in from other copies; empty if none."""
    count = found.from_copies
    return f", and brings back {counted(count, 'record')} that only the copies have" if count else ""


def skipped_text(ways: Iterable[Measured]) -> str:
    """Return text to follow "skipped: ". It says which records are hidden, and that consumers get them in part, in
    place of others, or not at all. One of `ways` may have both hidden records and a batch that its segment cuts short
    (`damage_passed`). The text then says instead that a consumer may reach the records from such a batch.

    A fetch at such a batch continues in the next segment, whatever its offsets. A fetch at an offset that two segments
    hold gets the records of the later segment, also above the log's end.
    """
    goes_on = any(way.records_hidden and way.damage_passed for way in ways)
    reach = "a consumer may reach from a batch that its segment cuts short"
    reach = reach if goes_on else "consumers get in part, in place of others, or not at all"
    return (
        "records after ones with higher offsets, at offsets where an empty segment begins, or above the log's end, "
        f"which {reach}"
    )


def lost_beside(
    nodes: Iterable[NodeStart], findings: Iterable[Finding], counted_already: Collection[str] = (),
    renamed: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """Return phrases about losses that the recovery itself does not cause, to be added after the sum of its losses;
    empty if there are none. They are about, in order:

    * partitions that lose something by the start of these nodes;
    * partitions of a lost log directory;
    * partitions that the start makes again, empty, unless all log directories of the nodes were certainly given;
    * metadata that is lost already;
    * the metadata if the start treats it as empty, else its end if the start returns to an earlier offset;
    * partitions whose logs are older than the metadata, except `counted_already` (names of partition directories);
    * partitions with a PARTITION_MISSING finding that the start does not mention.

    The third and the last phrase may say that other log directories may have the partitions. They do so if there are no
    nodes, or if it is not certain that all log directories of the nodes were given. `renamed` are paths of directories
    that look like missing partitions, each with the path of the partition; the first and the last phrase mention them.
    """
    starts = list(dict.fromkeys(nodes))
    of_start = [consequence for start in starts for answer in start.answers for consequence in answer.consequences]
    unless = "" if starts and all(start.not_given == 0 for start in starts) else f", {UNLESS_ELSEWHERE}"
    again = {name for each in of_start if each.kind is ConsequenceKind.EMPTY_AGAIN for name in each.lost}
    gone = sorted({name for each in of_start if isinstance(each, LostDirectoryConsequence) for name in each.lost})
    unsure = sorted(again.difference(gone)) if unless else []
    lost = sorted({name for start in starts for name in start.lost}.difference(unsure, gone))
    named = {name for consequence in of_start for name in consequence.names}
    files = (finding.file for finding in findings if finding.code is FindingCode.PARTITION_MISSING)
    absent = sorted({os.path.basename(file) for file in files if file is not None} - named)
    words = [f"all or part of {first_names(lost)}, by the broker's next start, recovered or not"] if lost else []
    words = [word + _unless(lost, renamed) for word in words]
    words += [f"all of {first_names(gone)}, unless the lost log directory comes back"] if gone else []
    words += [f"{first_names(unsure)}{unless}"] if unsure else []
    kinds = {consequence.kind for consequence in of_start}
    if any(start.has_no_metadata for start in starts):
        words.append("all of the metadata, unless there is another copy: topics, settings and access control entries")
    if ConsequenceKind.METADATA_OVERWRITTEN in kinds:
        words.append("all of the metadata, by the broker's start: topics, settings and access control entries")
    elif kinds & {ConsequenceKind.METADATA_GOES_BACK, ConsequenceKind.METADATA_MAY_GO_BACK}:
        words.append("the end of the metadata log, by the broker's start, if it had more")
    faults = {os.path.basename(fault.file): fault.lacks for start in starts for fault in start.older_logs}
    older = {name: lacks for name, lacks in faults.items() if name not in counted_already}
    if older:
        lacks = sum(older.values())
        much = f"at least {counted(lacks, 'offset')}" if lacks else "an unknown number of records, perhaps none,"
        words.append(f"{much} at the end of {first_names(list(older))}")
    if absent:
        puts_back = _unless(absent, renamed)
        words.append(f"what was in {first_names(absent)}, of which there is no directory here{unless}{puts_back}")
    return words


def _unless(names: Collection[str], renamed: Iterable[tuple[str, str]]) -> str:
    named = ((path, os.path.basename(to)) for path, to in renamed)
    return "".join(f", unless {path} is {name}, renamed" for path, name in named if name in names)


def first_names(names: Sequence[str]) -> str:
    """Number of partitions, followed by the names of the first three and the number of the others, as text."""
    return f"{counted(len(names), 'partition')} ({first_of(names, _NAMED)})"
