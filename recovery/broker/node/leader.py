"""Read the metadata log of the voters that a node follows, from copies of their log directories, and find voters that
have none.

A follower keeps its own snapshot and log as far as the leader has them too. The leader sends the rest, and everything
that it does not have is truncated. Records that a majority of the voters does not have were never committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.files.text import MetaProperties
from kafkalog.recovery.broker.node.answer import EmptyVoters
from kafkalog.recovery.broker.node.ending import StartEndsError
from kafkalog.recovery.broker.node.metadata_log import LoadedMetadata, Snapshot, load_metadata_log
from kafkalog.recovery.broker.node.node_files import NodeFiles, node_files
from kafkalog.recovery.broker.node.reading import MetaBatch, ReaderError

__all__ = ["Leaders", "continues", "empty_majority", "followed"]


class Leaders(Struct, kw_only=True):
    """Log directories of the other voters, and the one whose metadata log reaches furthest."""

    directories: Sequence[str]
    now_ms: int
    _files: list[NodeFiles] = field(default_factory=list)
    _loaded: list[tuple[int | None, LoadedMetadata]] = field(default_factory=list)
    _without: dict[int, list[str | None]] = field(default_factory=dict)
    _clusters: set[str] = field(default_factory=set)
    _is_read: bool = False
    _older: Mapping[int | None, str] | None = None

    def close(self) -> None:
        """Close the files of the other voters."""
        for file in self._files:
            file.close()

    def decides(self, voters: set[int], own: int | None = None) -> bool:
        """Whether the voters whose directories were given, and whose metadata can be read, are a majority of `voters`,
        together with the voter `own` if it is not None.
        """
        self._read()
        return 2 * len({own, *(number for number, _loaded in self._loaded)} & voters) > len(voters)

    def why_older(self, node: int, directory: str, leader: LoadedMetadata, voters: set[int]) -> str | None:
        """Return a clause that shows that the metadata log `directory` of the voter `node` lacks what it once had, as
        the metadata of `leader` shows; None if nothing shows it, or if the voters that were given without such a sign
        are a majority of `voters` (`older_voters`). Raises `StorageError` if a log cannot be read.
        """
        from kafkalog.cluster.kraft.newer_metadata import older_voters  # few nodes need these
        from kafkalog.cluster.kraft.quorum_log import read_quorum_log

        if self._older is None:
            given = (loaded.directory for _number, loaded in self._loaded)
            logs = [*map(read_quorum_log, dict.fromkeys((leader.directory, directory, *given)))]
            self._older = older_voters(logs[0], logs, voters)
        return self._older.get(node)

    @property
    def cluster_id(self) -> str | None:
        """Cluster id of the other voters; None if they name none, or several."""
        self._read()
        return next(iter(self._clusters)) if len(self._clusters) == 1 else None

    def metadata(self, voters: set[int] | None = None) -> LoadedMetadata | None:
        """Return the metadata log with the highest last epoch, then the highest end offset, among those of the nodes
        `voters` (None: of all nodes); None if none can be read.
        """
        self._read()
        candidates = [loaded for number, loaded in self._loaded if voters is None or number in voters]
        return max(candidates, key=lambda loaded: (loaded.epoch or 0, loaded.end), default=None)

    @property
    def held(self) -> Sequence[tuple[int | None, LoadedMetadata]]:
        """Node id (None if unknown) and metadata log of each directory whose log has records or a snapshot."""
        self._read()
        return [(number, loaded) for number, loaded in self._loaded if loaded.has_any]

    @property
    def without(self) -> Mapping[int, Sequence[str | None]]:
        """The nodes that have no metadata in any directory that was given, by id. The values are the ids of their
        directories, None for one without an id.
        """
        self._read()
        holders = {number for number, _loaded in self.held}
        return {number: ids for number, ids in self._without.items() if number not in holders}

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for directory in self.directories:
            files = node_files([directory])
            self._files.append(files)
            try:
                loaded = load_metadata_log(files, self.now_ms)
            except (StartEndsError, StorageError, UsageError):
                continue
            if not loaded.has_any and files.node_id is not None:
                meta = files.meta[files.roots[0]]
                identifier = meta.directory_id if isinstance(meta, MetaProperties) else None
                self._without.setdefault(files.node_id, []).append(identifier)
            if loaded.tree is None and loaded.snapshot is None:
                continue
            self._loaded.append((files.node_id, loaded))
            if files.cluster_id is not None:
                self._clusters.add(files.cluster_id)


def empty_majority(
    held: Sequence[tuple[int | None, str]],
    without: Mapping[int, Collection[str | None]],
    voters: Collection[int],
    registered: Callable[[int], Collection[str]],
) -> EmptyVoters | None:
    """Return the voters without metadata if they are a majority; None if they are not, or if no node has metadata.

    * `held`: node id and log directory of each node with metadata, the furthest first
    * `without`: the nodes of which no given directory has metadata, with the ids of these directories. A node is left
      out that has registered one of them, and others that were not given
    * `voters`: ids of the voters, which are static: a directory that was reformatted has no vote among dynamic ones
    * `registered`: returns the ids of the directories with which a node has registered as a broker
    """
    nodes = []
    for node in without.keys() & set(voters):
        known, given = set(registered(node)), set(without[node])
        if not (known & given and known - given):  # else its metadata may be there
            nodes.append(node)
    if not held or 2 * len(nodes) <= len(voters):
        return None
    best = next((root for node, root in held if node in voters), None)
    copies = sorted({root for _node, root in held} - {best})
    return EmptyVoters(nodes=tuple(sorted(nodes)), voters=len(voters), best=best, copies=tuple(copies))


def continues(own: LoadedMetadata, leader: LoadedMetadata) -> bool:
    """Whether the leader's metadata, by epochs and offsets, has all of `own`, so that the follower truncates nothing.
    False if the leader's epoch is lower than the epoch of `own`. Otherwise True if the leader's log starts at or above
    the end of `own`. Only if it starts below is it read; False if it is then damaged or unreadable.
    """
    if (leader.epoch or 0) < (own.epoch or 0):
        return False
    try:
        return leader.start >= own.end or _end_of_epoch(leader, own.epoch or 0) >= own.end
    except (ReaderError, StorageError):
        return False


def followed(own: LoadedMetadata, leader: LoadedMetadata) -> tuple[Snapshot | None, Iterator[MetaBatch]]:
    """Return the snapshot (None if there is none) and the batches, in order, from which a follower of `leader` builds
    its metadata. The follower truncates its own log at the point where the logs diverge, and continues with the
    leader's. If neither the log that is left nor its snapshot reaches the start of the leader's log, it uses the
    leader's snapshot.

    The leader's log is read at once, the follower's during the iteration. Both the call and the iteration raise
    `ReaderError` for a damaged log, and `StorageError` if a file cannot be read.
    """
    kept = min(own.end, _end_of_epoch(leader, own.epoch or 0))
    snapshot = own.snapshot
    if max(kept, 0 if snapshot is None else snapshot.end) < leader.start:
        snapshot, kept = leader.snapshot, leader.start
    return snapshot, _joined(own, leader, 0 if snapshot is None else snapshot.end, kept)


def _end_of_epoch(leader: LoadedMetadata, epoch: int) -> int:
    """Offset to which a follower with this last epoch is truncated (`KafkaMetadataLog.endOffsetForEpoch`). Raises
    `ReaderError` if the leader's log is damaged, and `StorageError` if it cannot be read.
    """
    return max((batch.next_offset for batch in leader.batches(0) if batch.epoch <= epoch), default=leader.start)


def _joined(own: LoadedMetadata, leader: LoadedMetadata, start: int, kept: int) -> Iterator[MetaBatch]:
    for batch in own.batches(start):
        if batch.next_offset <= kept:
            yield batch
    yield from leader.batches(max(start, kept))
