"""End offsets of the logs at hand, from which the lag of consumer groups is computed."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.codec.common.advice import Sentence
from kafkalog.codec.common.errors import ReplicaError, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.log.directories.inventory import chosen_replica
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import PathLike, unreadable

__all__ = ["LogEnds"]

_Key = tuple[str | None, int | None]


class LogEnds:
    """The log end offsets of the partitions at hand. Each is read when it is first needed, and cached."""

    def __init__(self, at_hand: Iterable[Partition], replica: PathLike | None, findings: list[Finding]) -> None:
        self._at_hand: dict[_Key, list[Partition]] = {}
        for partition in at_hand:
            self._at_hand.setdefault((partition.topic, partition.partition), []).append(partition)
        self._replica = replica
        self._known: dict[_Key, int | None] = {}
        self._findings = findings

    def of(self, commit: CommittedOffset) -> int | None:
        """End of the log that the commit refers to; None if the log is not at hand or cannot be read."""
        return self.of_partition(commit.key.topic, commit.key.partition)

    def of_partition(self, topic: str, partition: int) -> int | None:
        """End of a log; None if it is not at hand or cannot be read."""
        key = topic, partition
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def lag(self, commit: CommittedOffset) -> int | None:
        """Number of offsets from the commit to the end of the log; None if the end is unknown, or if the committed
        offset is negative.

        The result is negative if the committed offset is beyond the end of the log here.
        """
        end = self.of(commit)
        return None if end is None or not commit.is_commit else end - commit.offset

    def note_beyond(self, commits: Iterable[CommittedOffset]) -> None:
        """Append a warning to the findings for each commit whose offset is beyond the end of its log. Commits with an
        unknown end are skipped. Reads the logs' ends with `of`, which adds a finding if one cannot be read.
        """
        for commit in commits:
            end = self.of(commit)
            if end is not None and commit.offset > end:
                key = commit.key
                detail = (
                    f"group {key.group} has committed offset {commit.offset} of {key.topic}-{key.partition}, whose log "
                    f"here ends at {end}: records are missing here, the offset is another cluster's (mirroring), or "
                    "the topic was made again"
                )
                code, path = FindingCode.OFFSET_BEYOND_LOG_END, self._at_hand[key.topic, key.partition][0].path
                self._findings.append(Finding(code, Severity.WARNING, None, end, detail, path))

    def _read(self, key: _Key) -> int | None:
        """Read the log end offset of a partition; None if it is not at hand or cannot be read.

        If the partition is in several directories, the one that `replica` chooses is read. If none is chosen, or
        reading fails, a finding is added. The result is None without a finding if some files of the directory could not
        be read when it was opened.
        """
        partitions = self._at_hand.get(key, [])
        name = partitions[0].name if partitions else None
        if name is None:
            return None
        try:
            partition = partitions[0] if len(partitions) == 1 else chosen_replica(name, partitions, self._replica)
            return None if partition.unreadable else partition.log_end_offset()
        except ReplicaError as error:
            detail = Sentence("the end of the log is not known: ", error.sentence)
            self._findings.append(Finding(FindingCode.DUPLICATE_PARTITION, Severity.WARNING, None, None, detail))
            return None
        except StorageError as error:
            self._findings.append(unreadable(error, partitions[0].path))
            return None
