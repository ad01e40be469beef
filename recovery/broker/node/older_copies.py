"""Predict what a start loses because the metadata, or logs, were restored from an older copy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.cluster.kraft.metadata_image import PartitionImage
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.files.text import LeaderEpoch, decode_leader_epochs
from kafkalog.codec.model import BatchHeader, ProducerEntry
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CONSUMER_OFFSETS_TOPIC,
    LEADER_EPOCH_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TRANSACTION_STATE_TOPIC,
    FileKind,
)
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.pointer import epoch_before_runs
from kafkalog.log.storage.checkpoint_file import read_offset_checkpoint
from kafkalog.log.storage.java import JavaError, TooLargeError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.node.answer import (
    OLDER_LOG,
    ConsequenceKind,
    Fault,
    OlderCopyConsequence,
    Part,
    StartConsequence,
)
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory
from kafkalog.recovery.broker.node.releases import Release
from kafkalog.recovery.facts.coordinators import Coordinators

if TYPE_CHECKING:
    from kafkalog.cluster.transactions.transactions import TransactionalId

__all__ = [
    "KRAFT_PAGE", "ZOOKEEPER_PAGE", "consequences_of_older_logs", "consequences_of_older_metadata", "epochs_lost",
    "live_entries", "live_producer_ids", "sentence_of_older_metadata", "sentence_of_reused",
]  # fmt: skip

KRAFT_PAGE, ZOOKEEPER_PAGE = "kraft-files", "zookeeper-lost"
"""pages of the runbook about metadata that is older than the logs"""

_NAMED = 3
"""most transactional ids, or partitions, that a sentence names"""
_GROUPS = 8
"""most groups that a sentence names"""
_DAY_MS = 24 * 60 * 60 * 1000
_EXPIRATION = "producer.id.expiration.ms", "3.4", _DAY_MS
"""setting, first release that has it, default"""
_OLD_EXPIRATION = "transactional.id.expiration.ms", 7 * _DAY_MS
"""setting that decided before, default"""

ReplicaOf = Callable[[PartitionDirectory], PartitionImage | None]
"""function that returns the partition of a directory in the metadata; None if the metadata does not have it"""
ProducersOf = Callable[[PartitionDirectory], Sequence[ProducerEntry]]
"""function that returns the entries of a live log's newest producer snapshot after its loading; empty for other logs"""


def live_producer_ids(
    files: NodeFiles,
    directories: Iterable[PartitionDirectory],
    producers_of: ProducersOf,
    release: Release,
    now_ms: int,
) -> Iterator[tuple[str, int]]:
    """Yield (partition directory, producer id) for the producers that a start of `release` knows from these
    directories: those of `producers_of` that have not expired at `now_ms` (ms since 1970). Raises `StorageError` if a
    file cannot be read.
    """
    for directory in directories:
        for entry in live_entries(producers_of(directory), files.properties, now_ms, release):
            yield directory.name, entry.producer_id


def live_entries(
    entries: Iterable[ProducerEntry], properties: Mapping[str, str], now_ms: int, release: Release
) -> Iterator[ProducerEntry]:
    """Yield the entries of a producer snapshot that a start of `release` with these server properties keeps at `now_ms`
    (ms since 1970): those with an open transaction, and those that have not expired.
    """
    name, default = _EXPIRATION[::2] if release.at_least(_EXPIRATION[1]) else _OLD_EXPIRATION
    text = properties.get(name, "").strip()
    since = now_ms - (int(text) if text.isdecimal() else default)
    for entry in entries:
        if entry.timestamp > since or entry.current_txn_first_offset >= 0:
            yield entry


def sentence_of_reused(used: Sequence[tuple[str, int]], next_block: int, page: str) -> str:
    """Return the sentence about producer ids that logs have and that the metadata hands out again from `next_block` on.
    It names the highest of them. `used` are (partition directory, producer id), at least one; `page` is a page of the
    runbook.
    """
    name, highest = max(used, key=lambda pair: pair[1])
    return (
        "batches of new producers are dropped as duplicates though acknowledged, or refused: the metadata hands out "
        f"ids from {max(next_block, 0)} on, and logs here have ids up to {highest} already ({name}); keep clients out "
        f"until new ids are above that (runbook: {page})"
    )


def sentence_of_older_metadata(later: Sequence[tuple[str, int, int]], next_block: int | None, page: str) -> str:
    """Return the sentence about metadata that is older than the logs: `later` are (partition directory, last leader
    epoch of its log, leader epoch in the metadata). If `later` is empty, the logs have producer ids that the metadata
    hands out again from `next_block` on (None or -1: 0). `page` is a page of the runbook.
    """
    whose, other = " in ZooKeeper" if page == ZOOKEEPER_PAGE else "", ""
    if later:
        name, last, known = later[0]
        more = f", and {len(later) - 1} more" if len(later) > 1 else ""
        why = f"{name}: leader epoch {last}, known {known}{more}"
    else:
        why, other = f"its next producer id is {max(next_block or 0, 0)}", ", or these are of another cluster"
    return (
        f"the metadata{whose} is older than the logs{other} ({why}): look for a newer copy of it before (runbook: "
        f"{page})"
    )


def consequences_of_older_metadata(
    files: NodeFiles,
    directories: Sequence[PartitionDirectory],
    replica_of: ReplicaOf,
    producer_ids: Iterable[tuple[str, int]],
    next_block: int | None,
    *,
    page: str = KRAFT_PAGE,
) -> list[StartConsequence]:
    """Return consequences of metadata that is older than the logs; empty if nothing shows that it is. A controller
    records a leader epoch, and allocates a block of producer ids, before either is used. Raises `StorageError` if a log
    directory or a file cannot be read.

    PRODUCER_IDS_REUSED is returned if one of `producer_ids` is at or above `next_block`, the first id that the metadata
    allocates next (-1: it has allocated none; None: unknown). METADATA_MAY_GO_BACK follows it, and is also returned if
    logs have later leader epochs than `replica_of` knows. `page` is the page of the runbook that the sentences name.
    """
    later = []
    for directory in directories:
        replica = replica_of(directory)
        if replica is None or directory.end is None:
            continue
        last = _later_epoch(files.tree(directory.root), directory, replica.leader_epoch)
        if last is not None:
            later.append((directory.name, last, replica.leader_epoch))
    consequences: list[StartConsequence] = []
    file = files.metadata_directory
    used = []
    if next_block is not None:
        from kafkalog.cluster.transactions.producer_ids import used_again  # many starts have no metadata to compare

        used = used_again(producer_ids, next_block)
    if next_block is not None and used:
        names = tuple(dict.fromkeys(name for name, _number in used))
        detail = sentence_of_reused(used, next_block, page)
        kind = ConsequenceKind.PRODUCER_IDS_REUSED
        consequences.append(StartConsequence(kind=kind, detail=detail, file=file, names=names))
    if later or used:
        detail = sentence_of_older_metadata(later, next_block, page)
        names = tuple(name for name, _last, _known in later) or consequences[0].names
        kind = ConsequenceKind.METADATA_MAY_GO_BACK
        consequences.append(OlderCopyConsequence(kind=kind, detail=detail, file=file, names=names))
    return consequences


def consequences_of_older_logs(
    files: NodeFiles,
    directories: Sequence[PartitionDirectory],
    producers_of: ProducersOf,
    replica_of: ReplicaOf,
    node_id: int,
    coordinators: Coordinators,
) -> tuple[list[StartConsequence], list[Fault]]:
    """Return consequences and faults for older logs. A log is older if its `leader-epoch-checkpoint` ends before the
    last epoch in which node `node_id` led the log, by the metadata (`replica_of`). A leader writes its epoch into this
    file before it serves clients, so these logs were restored from an older copy. Both lists are empty if no log is
    older.

    The first consequence is OLDER_LOGS. If logs of `__transaction_state` are older, a consequence about their
    transactional ids follows. If logs of `__consumer_offsets` are older, one about the groups with commits in them
    follows. There is a fault for each older log, which counts the offsets that the log lacks by committed offsets and
    high watermarks. `coordinators` are the coordinators of the node's log directories.

    A whole log of `__transaction_state` that is not among these is older too if it has a lower epoch of a producer than
    another log. This is certain, because the coordinator writes an epoch before it gives it to a producer. One more
    OLDER_LOGS, the last consequence, names the ids of all such logs; they have no fault.

    Only live logs count, and only if this node has the only replica. Leader epochs are not compared if the file has
    none. They are not compared either if the log directory was not stopped in order, because a crash may lose the file.
    The same is true if a recovery has removed the epoch from the file: a start removes epochs that no record has
    (`LeaderEpochFileCache.truncateFromEnd`). Raises `StorageError` if a log directory or a file cannot be read.
    """
    older, of_transactions = [], []
    for directory in directories:
        replica = replica_of(directory)
        tree = files.tree(directory.root)
        is_only = replica is not None and replica.replicas == (node_id,)
        if replica is None or not is_only or directory.parsed.state.value:
            continue
        if directory.parsed.topic == TRANSACTION_STATE_TOPIC:
            of_transactions.append(directory)
        if CLEAN_SHUTDOWN_FILE not in tree.files:
            continue
        led = replica.leader_epoch if replica.leader == node_id else replica.leader_epoch - 1
        last = max((entry.epoch for entry in _leader_epochs(tree, directory)), default=None)
        if last is not None and last < led and epoch_before_runs(directory.root, directory.name) < led:
            older.append((directory, last, led))
    epochs = _transactional_epochs(directories, producers_of) if of_transactions else {}
    paths = {each.path for each, _last, _led in older}
    behind = _behind_their_logs([each for each in of_transactions if each.path not in paths], epochs, coordinators)
    if not older:
        return behind, []
    first, known, led = older[0]
    are = "log is" if len(older) == 1 else "logs are"
    detail = (
        f"{len(older)} {are} older than the metadata ({first.name} knows leader epoch {known}, was led in {led}): look "
        "for newer copies before (runbook: backup)"
    )
    names = tuple(directory.name for directory, _last, _led in older)
    faults = [_of_older_log(files, *each, coordinators) for each in older]
    kind = ConsequenceKind.OLDER_LOGS
    consequences: list[StartConsequence] = [
        OlderCopyConsequence(kind=kind, detail=detail, file=first.path, names=names)
    ]
    of_coordinator = [each for each, _last, _led in older if each.parsed.topic == TRANSACTION_STATE_TOPIC]
    if of_coordinator:
        partitions = {each.parsed.partition for each in of_coordinator}
        ids = _ids_going_back(epochs, coordinators, partitions)
        detail = f"transactional ids go back to used epochs {epochs_lost(_differences(ids, epochs))}"
        consequences.append(_of_topic(of_coordinator, detail))
    of_groups = [each for each, _last, _led in older if each.parsed.topic == CONSUMER_OFFSETS_TOPIC]
    if of_groups:
        consequences.append(_of_topic(of_groups, _commits_going_back(of_groups, coordinators)))
    return [*consequences, *behind], faults


def _behind_their_logs(
    of_transactions: Sequence[PartitionDirectory], epochs: Mapping[int, int], coordinators: Coordinators
) -> list[StartConsequence]:
    """Return one OLDER_LOGS consequence about those of the logs `of_transactions` that have a lower epoch of a producer
    than `epochs`; empty if there are none, or the ids are not known. Logs that are not whole are left out, because
    their loss is reported.
    """
    if not of_transactions or not epochs or coordinators.transactions is None:
        return []
    whole = [each for each in of_transactions if coordinators.transactions.logs.is_whole(each.parsed.partition)]
    ids = _ids_going_back(epochs, coordinators, {each.parsed.partition for each in whole})
    if not ids:
        return []
    numbers = {each.log_partition for each in ids}
    behind = [directory for directory in whole if directory.parsed.partition in numbers]
    detail = f"transactional ids go back to used epochs {epochs_lost(_differences(ids, epochs))}"
    names = tuple(directory.name for directory in behind)
    kind = ConsequenceKind.OLDER_LOGS
    return [OlderCopyConsequence(kind=kind, detail=detail, file=behind[0].path, names=names)]


def _transactional_epochs(directories: Iterable[PartitionDirectory], producers_of: ProducersOf) -> dict[int, int]:
    """Return the highest epoch by producer id of the producers with a transaction, open or ended, in the producer
    snapshots that `producers_of` reads; empty if there are none. Raises `StorageError` if a snapshot cannot be read.
    """
    epochs: dict[int, int] = {}
    for directory in directories:
        for entry in producers_of(directory):
            if entry.coordinator_epoch >= 0 or entry.current_txn_first_offset >= 0:
                epochs[entry.producer_id] = max(epochs.get(entry.producer_id, -1), entry.producer_epoch)
    return epochs


def _of_topic(directories: Sequence[PartitionDirectory], detail: str) -> StartConsequence:
    """Return the consequence `detail` of logs of one coordinator's topic that are older than the metadata."""
    names = tuple(directory.name for directory in directories)
    return OlderCopyConsequence(kind=ConsequenceKind.OTHER, detail=detail, file=directories[0].path, names=names)


def _commits_going_back(directories: Sequence[PartitionDirectory], coordinators: Coordinators) -> str:
    """Return a sentence about the groups with commits in these older partitions of `__consumer_offsets`. It names no
    group if none is known.
    """
    numbers = [directory.parsed.partition for directory in directories]
    groups = sorted({group for number in numbers for _offset, group, _time in coordinators.commits_in(number)})
    where = first_of([directory.name for directory in directories], _NAMED)
    whose = f"groups {first_of(groups, _GROUPS)}" if groups else "groups"
    return f"{whose} may read records again: their commits are those of an older copy ({where})"


def epochs_lost(ids: Sequence[tuple[str, int | None]]) -> str:
    """Return what follows "go back to used epochs": the transactional ids, each with the number of epochs if it is
    known, what happens, and what to do. `ids` is empty if none is known.

    A producer begins one epoch above the one that its coordinator knows. A lower epoch than the log's is refused. With
    the log's own epoch, its first batch is out of sequence, or it is taken for an earlier one with this sequence
    number: acknowledged, and not written. The next start of the producer aborts the transaction with one epoch more. If
    the log has a higher one yet, it refuses the marker, which is not sent again. Until the marker is written, every
    start gets CONCURRENT_TRANSACTIONS (`TransactionMarkerRequestCompletionHandler`).
    """
    named = [name if back is None else f"{name}: by {back}" for name, back in ids]
    whose = first_of(named, _NAMED) if ids else "ids whose newest epoch is lost with it"
    return f"({whose}): what they write next is refused or dropped, perhaps forever (new ids avoid it)"


def _ids_going_back(
    epochs: Mapping[int, int], coordinators: Coordinators, partitions: Collection[int]
) -> list[TransactionalId]:
    """Return the ids in these partitions of `__transaction_state` whose producer has a later epoch in `epochs` (by
    producer id). Empty if the ids are not known.
    """
    known = coordinators.transactions
    return [
        each
        for each in (() if known is None else known.ids)
        if each.log_partition in partitions and epochs.get(each.producer_id, -1) > each.producer_epoch
    ]


def _differences(ids: Iterable[TransactionalId], epochs: Mapping[int, int]) -> list[tuple[str, int | None]]:
    """Return (transactional id, number of epochs by which it goes back) pairs, sorted."""
    return sorted((str(each.transactional_id), epochs[each.producer_id] - each.producer_epoch) for each in ids)


def _of_older_log(
    files: NodeFiles, directory: PartitionDirectory, known: int, led: int, coordinators: Coordinators
) -> Fault:
    """Return the fault of a log that knows leader epoch `known`, and that this node led in epoch `led`. Its `lacks` is
    the number of offsets by which the log ends below the high watermark or the highest committed offset, whichever is
    higher; 0 if it does not, or if both or the log's end are unknown. Committed offsets are ignored unless
    `coordinators.has_few_commits`. An invalid checkpoint counts as no high watermark. Raises `StorageError` if the
    checkpoint of high watermarks cannot be read.
    """
    reached = coordinators.highest_commit(*directory.partition) if coordinators.has_few_commits else 0
    try:
        watermarks = read_offset_checkpoint(
            REPLICATION_OFFSET_CHECKPOINT, files.tree(directory.root).read(REPLICATION_OFFSET_CHECKPOINT)
        )
        reached = max(reached, watermarks.get(directory.partition, 0))
    except (KeyError, JavaError, TooLargeError):
        pass
    lacks = 0 if directory.end is None else max(reached - directory.end, 0)
    much = f"at least {counted(lacks, 'offset')}" if lacks else "an unknown number of records, perhaps none"
    detail = (
        f"the log is older than the metadata: it was led in leader epoch {led} and knows {known}; it lacks {much}, "
        "written since"
    )
    return Fault(part=Part.LOGS, kind=OLDER_LOG, file=directory.path, detail=detail, lacks=lacks)


def _leader_epochs(tree: Tree, directory: PartitionDirectory) -> list[LeaderEpoch]:
    """Return the entries of `leader-epoch-checkpoint`; empty if the file is missing, invalid, too large or empty.
    Raises `StorageError` if it cannot be read.
    """
    path = f"{directory.name}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return decode_leader_epochs(tree.read(path)) if path in tree.files else []
    except (FormatError, TooLargeError):
        return []


def _later_epoch(tree: Tree, directory: PartitionDirectory, known: int) -> int | None:
    """Return the last leader epoch in `leader-epoch-checkpoint` that starts at or before the log's end, if it is later
    than the epoch `known`. None if there is no such epoch, or if the log was not loaded.

    An epoch that starts before the log's end counts only if the last batch has it or a later one: otherwise the
    checkpoint is wrong, not the metadata. It also counts if the last segment does not end in a batch of magic 2. Only
    to decide this, batch headers of the last segment are read. Raises `StorageError` if a file cannot be read.
    """
    if directory.end is None:
        return None
    later = [entry for entry in _leader_epochs(tree, directory) if entry.epoch > known]
    before = [entry.epoch for entry in later if entry.start_offset < directory.end]
    written = _epoch_of_last_batch(tree, directory) if before else None
    at_end = [entry.epoch for entry in later if entry.start_offset == directory.end]
    return max([*at_end, *(epoch for epoch in before if written is None or epoch <= written)], default=None)


def _epoch_of_last_batch(tree: Tree, directory: PartitionDirectory) -> int | None:
    """Return the leader epoch in the header of the last segment's last batch; None if there is no batch, or the last
    one has magic 0 or 1. Batches after damage are not found, and checksums are not verified. Raises `StorageError` if
    the log cannot be read.
    """
    logs = [name for name in tree.names(directory.name) if name.endswith(FileKind.LOG.value)]
    if not logs:
        return None
    last = None
    for batch in Scanner(tree.source(f"{directory.name}/{max(logs)}"), check_crc=False):
        last = batch
    return last.header.partition_leader_epoch if last is not None and isinstance(last.header, BatchHeader) else None
