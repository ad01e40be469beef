"""Derive the leader epochs of a log from its batches if its epoch checkpoint contradicts them.

A broker's start keeps such a checkpoint: it adds only epochs above the highest that is listed.
"""

from __future__ import annotations

from itertools import pairwise

from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.log_file import LogFile
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.listed_epochs import ListedEpochs

__all__ = ["true_epochs"]

_UNKNOWN = -1
_PROOF = 2
"""Least number of contradicting batches. No checksum covers a batch's leader epoch, so a single one may be wrong."""


def true_epochs(tree: Tree, directory: str, log_start: int) -> list[LeaderEpoch] | None:
    """Return the leader epochs that the batches of a log have, from the log start offset on, if the epoch checkpoint is
    wrong: at least two batches have another leader epoch than it lists for their base offsets. Only batches of some
    segments are compared: the last one, and those in which or directly after which an epoch begins by the checkpoint.

    Return None if fewer batches differ, or if the checkpoint is missing, empty or invalid. Return None too if the log
    is damaged or the epochs of its batches decrease, because they prove nothing then. Raises `StorageError` if a file
    cannot be read.
    """
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        entries = LeaderEpochCheckpointFile(tree, directory).read() if path in tree.files else []
    except JavaError:
        return None
    logs, end = tree.logs(directory), 2**63
    behind = [*(base for base, _path in logs[1:]), end]
    starts = [entry.start_offset for entry in entries]
    doubtful = [
        path
        for (base, path), following in zip(logs, behind, strict=True)
        if following == end or any(base <= start <= following for start in starts)
    ]
    if not entries or not _contradict(tree, doubtful, ListedEpochs(entries)):
        return None
    begun = _begun(tree, logs)
    if begun is None or any(later.epoch < earlier.epoch for earlier, later in pairwise(begun)):
        return None
    cache = LeaderEpochFileCache(LeaderEpochCheckpointFile(tree.part(directory), directory), begun)
    cache.truncate_from_start(log_start)
    return list(cache.epochs.values())


def _contradict(tree: Tree, paths: list[str], listed: ListedEpochs) -> bool:
    """Whether at least two batches in the logs at `paths` have another leader epoch than the one listed for their base
    offset. Batches without an epoch, below the first listed entry, or after damage in their log do not count. Raises
    `StorageError` if a log cannot be read.
    """
    count = 0
    for path in paths:
        log, position = LogFile(tree.source(path), tree.headers(path)), 0
        for run, _first in log.runs():
            count += sum(1 for _number in listed.disagreeing(run))
            position = run.end
        for batch in Scanner(tree.source(path), position=position):
            count += sum(1 for _number in listed.disagreeing(OneBatch(batch)))
        if count >= _PROOF:
            return True
    return False


def _begun(tree: Tree, logs: list[tuple[int, str]]) -> list[LeaderEpoch] | None:
    """Return epoch and first offset of each batch whose epoch differs from that of the batch before it, in the order of
    `logs`; the first batch is included, and batches without an epoch are skipped. None if a log is damaged; empty if no
    batch has an epoch. Raises `StorageError` if a log cannot be read.
    """
    begun: list[LeaderEpoch] = []
    for _base, path in logs:
        scanner = Scanner(tree.source(path))
        for batch in scanner:
            header = batch.header
            epoch = header.partition_leader_epoch if isinstance(header, BatchHeader) else _UNKNOWN
            if epoch != _UNKNOWN and (not begun or begun[-1].epoch != epoch):
                begun.append(LeaderEpoch(epoch, header.first_offset))
        if scanner.stop is not StopReason.END:
            return None
    return begun
