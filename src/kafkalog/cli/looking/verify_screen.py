"""The first screen of `kafkalog verify`: whether the broker starts, what cannot be read, and what to type next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.lost_batches import LostBatch, is_of_batch, lost_batch_at
from kafkalog.log.directories.zookeeper_directories import without_zookeeper
from kafkalog.log.disk.files import real
from kafkalog.recovery.broker.node.sentences import start_fails, start_sentences
from kafkalog.recovery.checks.report import IN_USE, BrokerStart, DirectoryReport, PartitionReport, VerifyReport
from kafkalog.recovery.facts.brokers import of_one_broker
from kafkalog.words.first_screen import FirstScreen, Loss, StartForecast, paths_text, start_lines
from kafkalog.words.node import before_any_start
from kafkalog.words.outlook import how_logs_load, not_given_sentence, out_of_service_sentence

__all__ = ["screen_of"]

_SHOWN = 24
"""Partitions of which the first damaged place is looked at again, for its times."""
_CODES = 3
_NEXT = "type this to see whether records are lost, which groups stand beyond the end, and how to recover:"
_OF_TRANSACTION_INDEX = "; until it is rebuilt, consumers of committed data get aborted records, or skip committed ones"
_GRAVE = codes_with(Trait.HIDES_DIRECTORY)
_TOLD = _GRAVE | {FindingCode.BROKER_REFUSES, FindingCode.START_LOSES}
"""codes of findings that the problems or the forecast of the start tell"""


def screen_of(report: VerifyReport, hurt: Sequence[PartitionReport], words: Sequence[str] = ()) -> FirstScreen:
    """Return the first screen of a verification. It has the verdict, whether the brokers start, the findings that hide
    a whole directory, and one line per partition in `hurt`. If a log directory with a forecast of its start is not
    clean, it also has a `kafkalog plan` command.

    `hurt` are the partitions with warnings or errors. `words` are options that the recommended command repeats. The
    damaged places of the `_SHOWN` worst partitions are read again.
    """
    title = f"{'clean' if report.is_clean else 'not clean'}: {paths_text(report.paths)}"
    several = len(report.directories) > 1
    dirty = [each.path for each in report.directories if each.broker is not None and not each.is_clean]
    starts = [directory.broker.node for directory in report.directories if directory.broker is not None]
    nodes = list(dict.fromkeys(node for node in starts if node is not None))
    planned = [directory.path for directory in report.directories if directory.broker is not None]
    is_mixed = any(finding.code is FindingCode.IDENTITY_MISMATCH for finding in report.findings)
    _logs, zookeepers = without_zookeeper([path for path in report.paths if os.path.isdir(path)])
    told = [*(planned if is_mixed else _with_those_of_its_broker(dirty, planned)), *zookeepers, *words]
    commands = [shell_line(["kafkalog", "plan", *told])] if dirty else []
    problems = [f"{finding.file}: {finding.detail}" if finding.file else finding.detail
                for finding in report.findings if finding.code in _GRAVE]  # fmt: skip
    return FirstScreen(
        title=title,
        start=list(_starts(report.directories, are_alone=bool(problems))),
        out_of_service=out_of_service_sentence(nodes),
        not_given=not_given_sentence(nodes, is_unread=bool(problems)),
        lost=_found(report, hurt),
        losses=[_loss(each, number < _SHOWN, several) for number, each in enumerate(_worst_first(hurt))],
        note=_NEXT if dirty else "",
        commands=commands,
        problems=problems,
        before_any_start=before_any_start(nodes),
    )


def _found(report: VerifyReport, hurt: Sequence[PartitionReport]) -> str:
    """Return text with the number of partitions in `hurt`, and the codes of warnings and errors that are about no
    partition. Codes that other parts of the screen explain are left out. Empty if there are no such partitions and
    codes.
    """
    findings = [finding for directory in report.directories for finding in directory.directory_findings]
    codes = [finding.code for finding in findings if finding.severity is not Severity.INFO]
    beside = ", ".join(dict.fromkeys(code for code in codes if code not in _TOLD))
    if not hurt:
        return f"found beside the partitions: {beside}" if beside else ""
    return f"found something in {counted(len(hurt), 'partition')}{f', and beside them ({beside})' if beside else ''}:"


def _with_those_of_its_broker(dirty: Sequence[str], planned: Sequence[str]) -> list[str]:
    """Return the directories with findings and all other planned directories of the same brokers, in the order of the
    brokers' directories, because a start concerns all of them.
    """
    real_path = {real(each): each for each in planned}
    wanted = {real(each) for each in dirty}
    return [real_path[root] for roots in of_one_broker(list(real_path)) if wanted & set(roots) for root in roots]


def _worst_first(hurt: Sequence[PartitionReport]) -> list[PartitionReport]:
    return sorted(hurt, key=lambda each: each.valid_bytes - each.log_bytes)


def _loss(partition: PartitionReport, is_read: bool, several: bool) -> Loss:
    """Return the line about one partition, which must have a warning or an error. In this order, because a narrow
    screen cuts off the end, it has: the number of sound records after the damage; the offsets that cannot be read, or
    else the first missing offset; the time of the damaged batch; the codes of the warnings and errors. What is unknown
    is omitted, and after `_CODES` codes the others are counted. If no batch is damaged but the transaction index is
    wrong, what this means for consumers comes last.

    With `is_read` the damaged bytes are read to find offset and time. With `several` (log directories) the line begins
    with the whole path, otherwise with the directory's name.
    """
    findings = [finding for finding in partition.findings if finding.severity is not Severity.INFO]
    first = next((finding for finding in findings if is_of_batch(finding)), findings[0])
    codes = list(dict.fromkeys(str(finding.code) for finding in findings))
    more = f" and {len(codes) - _CODES} more" if len(codes) > _CODES else ""
    behind = partition.sound_records_behind_damage
    place = "after it" if first.code is FindingCode.LIMIT_EXCEEDED else "behind the damage"
    after = f"{counted(behind, 'sound record')} {place}; " if behind else ""
    batch = _batch_at(first) if is_read else LostBatch()
    offsets = _offsets(findings) or _from(_first_missing(first, batch, partition))
    written = f"written {batch.since}" if batch.since else ""
    means = ""
    if FindingCode.TXN_INDEX_MISMATCH in {finding.code for finding in findings} and not is_of_batch(first):
        means = _OF_TRANSACTION_INDEX
    name = partition.path if several else os.path.basename(partition.path)
    named = f"{', '.join(codes[:_CODES])}{more}"
    facts = ", ".join(filter(None, (offsets, written)))
    return Loss(place=name, offsets=f"{after}{f'{facts} ({named})' if facts else named}{means}")


def _offsets(findings: Sequence[Finding]) -> str:
    """Return text about the first range of offsets that damage of batches makes unreadable, and the number of further
    ranges; empty if no finding has such a range.
    """
    ranges = [finding.unread for finding in findings if finding.unread is not None and is_of_batch(finding)]
    if not ranges:
        return ""
    offsets, *_when = ranges[0].parts
    if ranges[0].last_offset is None:
        return f"nothing {offsets} can be read"
    more = f" and {counted(len(ranges) - 1, 'more range')}" if len(ranges) > 1 else ""
    return f"{offsets}{more} cannot be read"


def _from(offset: int | None) -> str:
    return "" if offset is None else f"missing from offset {offset} on"


def _batch_at(finding: Finding) -> LostBatch:
    """Return facts from the bytes at the damaged position; an empty `LostBatch` if the finding is not about a batch."""
    if not is_of_batch(finding) or finding.file is None or finding.position is None:
        return LostBatch()
    return lost_batch_at(finding.file, finding.position)


def _first_missing(first: Finding, batch: LostBatch, partition: PartitionReport) -> int | None:
    """Return the first offset that a consumer misses because of the first damage, according to the findings or the
    bytes at the damaged position. Without such evidence it is the log end offset, or None if the log could not be read.
    Return None also if `first` is not about a batch. `batch` has the facts read at the damaged position.
    """
    if not is_of_batch(first):
        return None
    if first.unread is not None:
        return first.unread.first_offset
    if batch.next_offset is not None:
        return batch.next_offset
    gaps = [each.offset for each in partition.findings if each.code is FindingCode.OFFSET_GAP
            and each.severity is Severity.ERROR and each.file == first.file and each.offset is not None]  # fmt: skip
    if gaps:
        return min(gaps)
    return partition.log_end_offset if partition.is_log_read else None


def _starts(directories: Sequence[DirectoryReport], *, are_alone: bool) -> Iterator[str]:
    """Yield sentences that forecast whether brokers start, in the order of `directories`. Directories with the same
    forecast get its sentences once, as `start_lines` words them. Directories without a forecast are skipped.
    `are_alone` says that other directories of the broker could not be examined.
    """
    by_forecast: dict[StartForecast, list[str]] = {}
    for directory in directories:
        broker = directory.broker
        if broker is not None:
            told = StartForecast(tuple(_sentences(broker)), start_fails(broker.node, broker.outcome))
            by_forecast.setdefault(told, []).append(directory.path)
    yield from start_lines(by_forecast, are_alone=are_alone)


def _sentences(broker: BrokerStart) -> list[str]:
    if broker.is_in_use:
        return [f"{IN_USE}; only what stayed wrong is reported"]
    if broker.outcome is None and not broker.message:
        return []
    how = how_logs_load(is_clean=broker.is_clean)
    return start_sentences(broker.node, broker.outcome, broker.exception, broker.message, how)
