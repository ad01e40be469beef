"""Let tiered logs that are lost, or damaged up to their end, continue after their remote part, in place.

Mode remote leaves damaged segments to the remote tier; for that the events are enough. This module adds to its plan the
logs of which nothing is left that a broker could continue from; for these the tier itself is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkalog.codec.common.errors import FormatError, RecoveryRefused
from kafkalog.codec.files.text import OffsetCheckpointEntry, decode_offset_checkpoint, encode_offset_checkpoint
from kafkalog.codec.names import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_LOG_METADATA_TOPIC,
    REPLICATION_OFFSET_CHECKPOINT,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.jobs.restore.beginning import Beginning, beginning_of, is_missed, local_logs, sound_end
from kafkalog.log.directories.directory import LogDir, open_log_dir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.storage.content import Content, Literal
from kafkalog.log.walk.on_damage import SKIP
from kafkalog.recovery.checks.missing_partitions import missing_partitions_of
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction, marker_first
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["beginnings_in", "with_beginnings"]

Key = tuple[str, int]


def beginnings_in(survey: Survey, tier: RemoteTier, select: Selection, facts: TopicFacts) -> list[Beginning]:
    """Return the logs of a log directory that can only begin, empty, after their remote part; sorted by topic and
    partition. These are logs without local files that checkpoints or the metadata name here (`_gone`). They are also
    logs without a sound batch beyond their remote part that are damaged or shorter than before. Logs of
    `__remote_log_metadata`, and directories that cannot be read, are skipped.

    Raises `StorageError` if the tier or a file cannot be read. Raises `RecoveryRefused` if no event names the segments
    of such a log, because a broker would not find them.
    """
    both = BothTiers(survey.root, tier, facts.tiering.remote)
    log_dir = open_log_dir(survey.root, tolerant=True)
    local, gone = dict(local_logs(log_dir)), _gone(log_dir, facts)
    reached, starts = _checkpointed(survey), _lines(survey, LOG_START_OFFSET_CHECKPOINT)
    beginnings = []
    for key in sorted(both.listed):
        name = f"{key[0]}-{key[1]}"
        is_meant = select.takes(*key) and key[0] != REMOTE_LOG_METADATA_TOPIC and name not in survey.unreadable
        if not is_meant or (key not in local and key not in gone):
            continue
        copied = both.copied(key)
        if not copied or (key in local and _goes_on(local[key], copied[-1].last + 1, reached.get(key, 0))):
            continue
        if not both.has_events(key):
            raise RecoveryRefused(
                f"no event in {REMOTE_LOG_METADATA_TOPIC} names a segment of {name}, so a broker would not find its "
                "remote part: have the events rebuilt first",
                reason="events",
            )
        beginning = beginning_of(both, key, starts.get(key))
        if beginning is not None:
            beginnings.append(beginning)
    return beginnings


def _gone(log_dir: LogDir, facts: TopicFacts) -> set[Key]:
    """Return (topic, partition) of the logs that are missing in this log directory, according to its own checkpoints or
    to the metadata's assignment. Logs that the metadata assigns to another directory or broker are omitted, because a
    log in two directories of a broker would prevent its start. Raises `StorageError` if a file cannot be read.
    """
    own = directory_id_of(log_dir.path)
    gone = set()
    for finding in missing_partitions_of(log_dir, facts):
        name = parse_partition_directory(os.path.basename(finding.file or ""))
        if name is not None:
            key = name.topic, name.partition
            if is_missed(key, facts) and facts.assigned.get(key, own) == own:
                gone.add(key)
    return gone


def _goes_on(partition: Partition, remote_end: int, reached: int) -> bool:
    """Whether a local log stays. `remote_end` is the end of the remote part, `reached` the end of the log according to
    its checkpoints (both exclusive).

    This depends on the end of the valid batches in the segment that continues the remote part (`sound_end`). The log
    stays if this end is at or above `remote_end`, or if the segment is undamaged and this end is at or above `reached`.
    It also stays if any sound batch has offsets at or above `remote_end`. Raises `StorageError` if the log cannot be
    read.
    """
    end, is_damaged = sound_end(partition, remote_end)
    if end >= remote_end or not (is_damaged or reached > end):
        return True
    beyond = partition.batches(start_offset=remote_end, on_damage=SKIP)
    return any(batch.last_offset >= remote_end for batch in beyond)


def with_beginnings(made: Plan, found: Sequence[Beginning]) -> Plan:
    """Return a copy of the plan with the actions that let the logs in `found` begin after their remote part; the plan
    itself if `found` is empty.

    These actions replace all planned actions in the logs' directories. The logs are removed from the plan's
    `partitions` and named in `begins`. Missing log start offsets are added to their checkpoint; the recovery points of
    the logs are set to the beginning. Raises `StorageError` if a file cannot be read.
    """
    if not found:
        return made
    directories = {item.name for item in found}
    others = [item for item in made.actions if item.path.partition("/")[0] not in directories]
    actions = [*others, *(action for item in found for action in _actions(made.survey, item))]
    for name, wanted in (
        (LOG_START_OFFSET_CHECKPOINT, {item.name: item.log_start for item in found}),
        (RECOVERY_POINT_CHECKPOINT, {item.name: item.end for item in found}),
    ):
        actions = _with_lines(made.survey, actions, name, wanted, keeps=name == LOG_START_OFFSET_CHECKPOINT)
    return replace(
        made,
        actions=marker_first(made.survey, actions),
        partitions=[item for item in made.partitions if item.name not in directories],
        begins={item.name: item.end for item in found},
    )


def _checkpointed(survey: Survey) -> dict[Key, int]:
    """Return the largest offset that the recovery-point and high-watermark checkpoints have for each log, by (topic,
    partition). A log that ends below it has lost its end. A negative offset counts as 0. Missing or malformed
    checkpoints have no entries. Raises `StorageError` if a file cannot be read.
    """
    highest: dict[Key, int] = {}
    for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT):
        for key, offset in _lines(survey, name).items():
            highest[key] = max(offset, highest.get(key, 0))
    return highest


def _lines(survey: Survey, name: str) -> dict[Key, int]:
    if name not in survey.files:
        return {}
    source = survey.source(name)
    try:
        entries = decode_offset_checkpoint(bytes(source.read(0, source.size)), source=name)
    except FormatError:
        return {}
    return {(entry.topic, entry.partition): entry.offset for entry in entries}


def _actions(survey: Survey, begun: Beginning) -> list[RecoveryAction]:
    """Return the actions that replace one log by its beginning, in order. Old segment files that are not rewritten are
    removed, last segment first. Then the directory is created if it is missing. Then the new files are written, the log
    first: a broker that starts between two actions still continues at the right offset.
    """
    inside = [path for path in survey.files if path.partition("/")[0] == begun.name]
    gone = [path for path in inside if parse_segment_file(path.rpartition("/")[2]) is not None]
    kept = {f"{begun.name}/{name}" for name in begun.files}
    actions = [
        RecoveryAction(kind=ActionKind.REMOVE, path=path) for path in sorted(gone, reverse=True) if path not in kept
    ]
    if begun.name not in survey.directories:
        actions.append(RecoveryAction(kind=ActionKind.MAKE_DIRECTORY, path=begun.name))
    return actions + [_write(f"{begun.name}/{name}", data) for name, data in begun.files.items()]


def _write(path: str, data: bytes) -> RecoveryAction:
    return RecoveryAction(
        kind=ActionKind.WRITE, path=path, size=len(data), content=Content((Literal(data),) if data else ())
    )


def _with_lines(
    survey: Survey, actions: Sequence[RecoveryAction], name: str, wanted: Mapping[str, int], *, keeps: bool
) -> list[RecoveryAction]:
    """Return the actions with entries added to the checkpoint file `name`; a planned write of this file is replaced.
    `wanted` are offsets by partition directory. With `keeps` existing entries win, otherwise the new ones. If no entry
    changes, the actions are returned unchanged. Raises `StorageError` if a file cannot be read.
    """
    planned = next((action for action in actions if action.path == name and action.kind is ActionKind.WRITE), None)
    lines = _lines(survey, name)
    if planned is not None and planned.content is not None:
        data = b"".join(part.data for part in planned.content.parts if isinstance(part, Literal))
        lines = {(entry.topic, entry.partition): entry.offset for entry in decode_offset_checkpoint(data, source=name)}
    before = dict(lines)
    for directory, offset in wanted.items():
        topic, _, number = directory.rpartition("-")
        lines[topic, int(number)] = lines.get((topic, int(number)), offset) if keeps else offset
    if lines == before:
        return list(actions)
    entries = [OffsetCheckpointEntry(*key, offset) for key, offset in sorted(lines.items())]
    return [*(action for action in actions if action is not planned), _write(name, encode_offset_checkpoint(entries))]
