"""Define the values that describe a node's start: one answer for each group of releases that behave alike.

A repair reads `NodeAnswer.faults`: each names the part of the start, the kind of fault, and the file.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from msgspec import Struct, field

from kafkalog.recovery.broker.node.releases import Release, named

__all__ = [
    "CANDIDATE", "DISPLACED", "ID_OF_ANOTHER_TOPIC", "LAST_EPOCH", "NEWER_FILES", "NO_VERSION", "OF_OLDER_LOGS",
    "OLDER_LOG", "OLD_VERSION", "OTHER_TOPIC_ID", "READ_ONLY", "REFUSED_SETTING",
    "AnswerJson", "ConsequenceKind", "EmptiedConsequence", "EmptyVoters", "Fault", "LedShortConsequence",
    "LostDirectoryConsequence", "NodeAnswer", "NodeStart", "NodeStartJson", "OlderCopyConsequence", "Part",
    "PerhapsEmptiedConsequence",
    "ReplacedConsequence", "Role", "ServedConsequence", "StartConsequence", "StartOutcome",
]  # fmt: skip


REFUSED_SETTING = "setting"
"""kind of a fault that lies in no file"""
NEWER_FILES = "newer_files"
"""kind of a fault of a sound file that a later release has written"""
DISPLACED = "displaced"
"""kind of a fault of a batch in the metadata log whose base offset makes its controller give up its leadership"""
OTHER_TOPIC_ID = "other_topic_id"
"""kind of a fault: a partition has a topic id that the metadata does not know, and the metadata has another for its
topic
"""
ID_OF_ANOTHER_TOPIC = "id_of_another_topic"
"""kind of a fault: a partition has the topic id of another topic in the metadata, so the broker serves neither it nor
some others
"""
READ_ONLY = "read_only"
"""kind of a fault: the file system of a log directory is mounted read-only"""
CANDIDATE = "candidate"
"""kind of a fault of a `quorum-state` of an only voter that was stopped between its vote for itself and its election"""
LAST_EPOCH = "last_epoch"
"""kind of a fault of a `quorum-state` in the last epoch that there is, after which the only voter cannot be elected"""
NO_VERSION = "no_version"
"""kind of a fault of metadata that has records and no `metadata.version`"""
OLD_VERSION = "old_version"
"""kind of a fault of sound metadata whose `metadata.version` is older than any that a release knows"""
OLDER_LOG = "older_log"
"""kind of a fault of a log that was restored from an older copy"""


class StartOutcome(enum.StrEnum):
    """How the start of a node ends: the most serious consequence, in the order of this list."""

    FAILS = "fails"
    """it ends with an exception, or never opens its listener"""
    OVERWRITES_METADATA = "overwrites_metadata"
    """it starts, and its metadata begins from nothing or goes back: topics, ACLs and configurations are gone, or
    producer ids are handed out again
    """
    DELETES = "deletes_partitions"
    """it starts, and removes partitions from its disks permanently"""
    STRAYS = "makes_strays"
    """it starts, and puts partitions out of service by renaming their directories `-stray`"""
    DIRECTORY_OFFLINE = "directory_offline"
    """it starts without one of its log directories"""
    NOT_SERVING = "starts_not_serving"
    """it starts, and something does not serve: the node waits without end, or a coordinator does not load"""
    UNKNOWN = "unknown"
    """the model cannot tell"""
    STARTS = "starts"
    """it starts, serves and loses nothing"""


class Part(enum.StrEnum):
    """Parts of a start, in the order in which a node reaches them."""

    PROPERTIES = "properties"
    META_PROPERTIES = "meta_properties"
    BOOTSTRAP = "bootstrap_checkpoint"
    METADATA_LOG = "metadata_log"
    METADATA_SNAPSHOT = "metadata_snapshot"
    QUORUM_STATE = "quorum_state"
    VOTERS = "voters"
    METADATA_REPLAY = "metadata_replay"
    LOGS = "logs"
    PARTITION_METADATA = "partition_metadata"
    FUTURE = "future"
    INTERNAL_TOPICS = "internal_topics"
    CLEAN_SHUTDOWN = "clean_shutdown"
    ZOOKEEPER = "zookeeper"


class Role(enum.StrEnum):
    """What a process does with the directories."""

    COMBINED = "combined"
    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER_BROKER = "zookeeper_broker"


class ConsequenceKind(enum.StrEnum):
    """Effects of a start on the node's files or service."""

    METADATA_OVERWRITTEN = "metadata_overwritten"
    METADATA_LOG_DROPPED = "metadata_log_dropped"
    METADATA_GOES_BACK = "metadata_goes_back"
    """metadata of the only voter ends earlier than it did"""
    METADATA_MAY_GO_BACK = "metadata_may_go_back"
    """metadata may end earlier than it did, because partitions have later epochs or the only voter is a broker too"""
    METADATA_LOG_CUT = "metadata_log_cut"
    """log is cut at its first damaged batch, as after any crash; what followed it is lost"""
    STRAY = "stray"
    STRAY_ONCE_STARTED = "stray_once_started"
    """partition without a topic id: this start fails, and the first that succeeds renames it to `-stray`"""
    EXPECTED_STRAY = "expected_stray"
    """stray that the metadata log itself shows as deleted, moved or created again: a note, no damage"""
    DELETED = "deleted"
    EMPTY_AGAIN = "empty_again"
    """partition that the metadata places here is created again, empty"""
    FUTURE_PROMOTED = "future_promoted"
    FUTURE_RESUMED = "future_resumed"
    """move between log directories continues, and its copy replaces the current log when it is complete"""
    FUTURE_TRUNCATED = "future_truncated"
    """move continues, and cuts what the current log does not have from its copy"""
    DIRECTORY_OFFLINE = "directory_offline"
    NOT_SERVING = "not_serving"
    EPOCH_FORGOTTEN = "vote_forgotten"
    MIGRATION_ENDED = "migration_ended"
    """migration from ZooKeeper is taken as finished"""
    OLDER_LOGS = "older_logs"
    """logs do not know a leader epoch in which this node led them: they may come from an older copy"""
    PRODUCER_IDS_REUSED = "producer_ids_reused"
    """metadata is older than the logs and hands out producer ids again that these have: batches of new producers are
    dropped as duplicates though acknowledged, or refused
    """
    UNFORESEEN = "unforeseen"
    """effect that cannot be predicted"""
    OTHER = "other"


OF_OLDER_LOGS = (ConsequenceKind.OLDER_LOGS, ConsequenceKind.OTHER)
"""kinds of an `OlderCopyConsequence` about logs; the others are about metadata"""


class Fault(Struct, frozen=True, kw_only=True):
    """A fault in a file that a node reads at its start."""

    part: Part
    kind: str
    """fixed word: `missing`, `empty`, `unreadable`, `cut`, `corrupt`, `mismatch`, and others that the parts name"""
    file: str
    """absolute path"""
    detail: str
    """one sentence"""
    lacks: int = 0
    """least number of offsets that a log from an older copy lacks; 0 if unknown"""
    cure: str = ""
    """what to do about it, as a clause; empty if the detail tells that"""


class StartConsequence(Struct, frozen=True, kw_only=True):
    """One thing that a start does."""

    kind: ConsequenceKind
    """what it is"""
    detail: str
    """one sentence"""
    file: str | None = None
    """the file it is about; null if it is about none"""
    names: tuple[str, ...] = ()
    """partition directories, relative to their log directories"""
    lost: tuple[str, ...] = ()
    """partitions that lose all records, or some, by it, and of which the metadata names no other copy"""


class LostDirectoryConsequence(StartConsequence, frozen=True):
    """A consequence for partitions that the metadata assigns to a log directory that the node no longer has."""


class PerhapsEmptiedConsequence(LostDirectoryConsequence, frozen=True):
    """A consequence for partitions of a lost log directory that have no leader, or are served empty."""


class LedShortConsequence(StartConsequence, frozen=True):
    """A consequence for partitions whose records are gone here, while other brokers have them, and that this node can
    lead without them: `kafkalog triage` is to be asked before a start.
    """


class OlderCopyConsequence(StartConsequence, frozen=True):
    """A consequence of metadata or logs that are older than others: a newer copy is to be looked for before a start."""


class ServedConsequence(StartConsequence, frozen=True):
    """A consequence for partitions that are served after the start, with fewer records than before or none."""


class ReplacedConsequence(ServedConsequence, frozen=True):
    """A consequence for one partition whose current log is replaced by a `-future` copy, `file`, that ends earlier."""


class EmptiedConsequence(ServedConsequence, frozen=True):
    """A consequence for partitions that are served after the start, empty."""


class NodeAnswer(Struct, frozen=True, kw_only=True):
    """Effects of starting the node with certain releases."""

    outcome: StartOutcome
    exception: str | None = None
    """class of the exception that ends the start; None if none does"""
    message: str | None = None
    """broker's own message, or the reason in our words if it prints nothing"""
    file: str | None = None
    """file that the failure is about"""
    consequences: tuple[StartConsequence, ...] = ()
    condition: str | None = None
    """what the answer depends on that the directories do not tell; None if they tell everything"""
    faults: tuple[Fault, ...] = ()

    @property
    def is_of_upgrade(self) -> bool:
        """Whether the files are sound, and the release refuses a setting that earlier ones take."""
        return self.outcome is StartOutcome.FAILS and any(fault.kind == REFUSED_SETTING for fault in self.faults)

    @property
    def is_of_newer_files(self) -> bool:
        """Whether the start fails only because a later release has written the files; `condition` then names it."""
        of_newer = all(fault.kind == NEWER_FILES for fault in self.faults)
        return self.outcome is StartOutcome.FAILS and bool(self.faults) and of_newer

    @property
    def strays(self) -> tuple[str, ...]:
        """Partition directories, sorted, that leave service or are deleted without evidence that they should."""
        kinds = (ConsequenceKind.STRAY, ConsequenceKind.DELETED)
        return tuple(
            sorted(name for consequence in self.consequences if consequence.kind in kinds for name in consequence.names)
        )

    @property
    def loses_nothing(self) -> bool:
        """Whether the outcome is STARTS and no consequence is of a kind with which data may be missing: EMPTY_AGAIN,
        METADATA_MAY_GO_BACK, OLDER_LOGS or OTHER.
        """
        losing = (
            ConsequenceKind.EMPTY_AGAIN,
            ConsequenceKind.METADATA_MAY_GO_BACK,
            ConsequenceKind.OLDER_LOGS,
            ConsequenceKind.OTHER,
        )
        return self.outcome is StartOutcome.STARTS and not any(
            consequence.kind in losing for consequence in self.consequences
        )


class EmptyVoters(Struct, frozen=True, kw_only=True):
    """Voters without any metadata, as if reformatted, that are a majority: they elect an empty cluster, unless one
    that has metadata leads before.
    """

    nodes: tuple[int, ...]
    """their ids, sorted"""
    voters: int
    """number of all voters"""
    best: str | None
    """log directory of the voter whose metadata reaches furthest; None if no voter that was given has metadata"""
    copies: tuple[str, ...]
    """the other log directories with metadata, sorted"""


class AnswerJson(Struct, frozen=True, kw_only=True):
    """What a node does when it is started by certain releases."""

    releases: str
    """the releases of Kafka, such as `3.7.1 to 4.0` or `4.3 and later`"""
    outcome: StartOutcome
    """the most serious of the consequences; `unknown` if it cannot be predicted"""
    exception: str | None
    """class of the exception that ends the start; null if none does"""
    message: str | None
    """the node's own words, or the reason"""
    file: str | None
    """the file that the failure is about; null if it is about none"""
    consequences: tuple[StartConsequence, ...]
    """what else the start does"""
    condition: str | None
    """what the answer depends on that the directories do not say; null if they say everything"""


class NodeStartJson(Struct, frozen=True, kw_only=True):
    """What a node does when it is started on its log directories."""

    role: Role
    """what its process does"""
    node_id: int | None
    """null if no file names it"""
    answers_by_release: list[AnswerJson] = field(name="answers")
    """one for each group of releases that do alike, the oldest first"""


class NodeStart(Struct, frozen=True, kw_only=True):
    """Answers of all releases that were asked about, oldest release first."""

    roots: tuple[str, ...]
    role: Role
    node_id: int | None
    releases: tuple[Release, ...]
    """first release of each group of releases that was asked about"""
    answers: tuple[NodeAnswer, ...]
    """one for each of `releases`"""
    fetches_metadata: bool = False
    """whether the node is certainly no voter, so that it fetches its metadata log again if that is missing"""
    not_given: int | None = None
    """number of its log directories that are not among `roots`; None if unknown"""
    in_not_given: tuple[str, ...] = ()
    """partitions that the metadata assigns to those directories"""
    only_in_not_given: tuple[str, ...] = ()
    """those of `in_not_given` of which no other broker has all records, according to the metadata"""
    empty_voters: EmptyVoters | None = None
    """the voters among the given nodes that would elect an empty cluster; None if they are no majority"""

    @property
    def grouped(self) -> Sequence[tuple[str, NodeAnswer]]:
        """Each different answer once, with the name of the releases that give it; the oldest release first."""
        by_answer: dict[NodeAnswer, list[Release]] = {}
        for release, answer in zip(self.releases, self.answers, strict=True):
            by_answer.setdefault(answer, []).append(release)
        return [(named(releases, self.releases), answer) for answer, releases in by_answer.items()]

    @property
    def answers_by_release(self) -> Sequence[AnswerJson]:
        """Return one `AnswerJson` for each different answer, oldest release first; its `releases` names all releases
        with this answer, such as `3.7.1 to 4.0`.
        """
        return [
            AnswerJson(
                releases=releases, outcome=answer.outcome, exception=answer.exception, message=answer.message,
                file=answer.file, consequences=answer.consequences, condition=answer.condition,
            )
            for releases, answer in self.grouped
        ]  # fmt: skip

    @property
    def judged(self) -> Sequence[NodeAnswer]:
        """Answers that tell whether something is wrong: those about an upgrade are omitted if there are others."""
        return [answer for answer in self.answers if not answer.is_of_upgrade] or self.answers

    @property
    def changes_nothing(self) -> bool:
        """Whether the node starts, serves, and changes only what every start changes, by all answers in `judged`."""
        return all(answer.loses_nothing and not answer.consequences for answer in self.judged)

    @property
    def worst(self) -> NodeAnswer:
        """Most serious of the answers in `judged`."""
        order = list(StartOutcome)
        return min(self.judged, key=lambda answer: order.index(answer.outcome))

    @property
    def loses_nothing(self) -> bool:
        """Whether the node starts, serves and loses nothing, by all answers in `judged`."""
        return all(answer.loses_nothing for answer in self.judged)

    @property
    def never_starts(self) -> bool:
        """Whether no release that was asked about starts."""
        return all(answer.outcome is StartOutcome.FAILS for answer in self.answers)

    @property
    def faults(self) -> Sequence[Fault]:
        """Faults in the answers in `judged`, each once, in the order of the start."""
        return list(dict.fromkeys(fault for answer in self.judged for fault in answer.faults))

    @property
    def has_no_metadata(self) -> bool:
        """Whether no release starts because the metadata log has records and no metadata, and no snapshot is damaged:
        the log was cut before the end of its first records.
        """
        is_empty = any(fault.kind == NO_VERSION for fault in self.faults)
        return self.never_starts and is_empty and all(fault.part is not Part.METADATA_SNAPSHOT for fault in self.faults)

    @property
    def lost(self) -> tuple[str, ...]:
        """Partitions that a start loses, wholly or in part, by one of the answers in `judged`; sorted."""
        consequences = (consequence for answer in self.judged for consequence in answer.consequences)
        return tuple(sorted({name for consequence in consequences for name in consequence.lost}))

    @property
    def older_logs(self) -> tuple[Fault, ...]:
        """One fault for each log that is older than the metadata; of several answers, that of the last."""
        faults = (fault for answer in self.answers for fault in answer.faults if fault.kind == OLDER_LOG)
        return tuple({fault.file: fault for fault in faults}.values())

    @property
    def unserved(self) -> tuple[str, ...]:
        """Partition directories that are not served after a start, by one of the answers in `judged`; sorted. If the
        start fails, only those in log directories that are missing or empty.
        """
        consequences = (consequence for answer in self.judged for consequence in answer.consequences)
        kind = ConsequenceKind.NOT_SERVING
        return tuple(sorted({name for each in consequences if each.kind is kind for name in each.names}))

    @property
    def strays(self) -> tuple[str, ...]:
        """Partition directories that any of the releases takes out of service, sorted."""
        return tuple(sorted({name for answer in self.answers for name in answer.strays}))
