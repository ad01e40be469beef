"""Define requests to recover log directories, and the rules to which a request is completed for one directory."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
from msgspec.structs import force_setattr

from kafkalog.codec.common.arguments import TIMES, check_fields
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.options import Option
from kafkalog.codec.common.shell import shell_option
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts, read_topic_facts
from kafkalog.recovery.facts.topic_ids import check_topic_id
from kafkalog.recovery.modes.spec import ExaminedSegments
from kafkalog.recovery.modes.table import Mode

if TYPE_CHECKING:
    from kafkalog.recovery.facts.survey import Survey

__all__ = [
    "MOVED", "QUARANTINE", "Recovery", "RemoteLogSource", "Rules", "mode_named", "rules_of", "selection_words",
    "settled",
]  # fmt: skip


class RemoteLogSource(Protocol):
    """The parts of tiered logs that are in a remote tier, for a recovery; `kafkalog.jobs.restore` implements it."""

    def beginnings(self, survey: Survey, select: Selection, facts: TopicFacts) -> Callable[[Any], Any] | None:
        """Find the logs that can only begin after their remote part, because nothing usable of them is local.

        Returns a function of a `Plan` that adds them to it; None if there are none.  Raises `StorageError` if the tier
        cannot be read, and `RecoveryRefused` if no event names the segments of such a log.
        """

    def restore(self, root: str, select: Selection) -> None:
        """Write the missing and damaged segments of tiered logs into `root`, a copy that nobody else uses.

        Raises `StorageError` if an object cannot be read or is not as it was copied.
        """


def mode_named(mode: Mode | str) -> Mode:
    """Return the mode with this name. Raises `UsageError` if there is none."""
    try:
        return Mode(mode)
    except ValueError:
        raise UsageError(f"unknown mode {mode!r}: there is {', '.join(Mode)}") from None


def selection_words(select: Selection) -> list[str]:
    """Command-line options that select these topic-partitions; empty if all are selected."""
    numbers = map(str, sorted(select.partitions))
    chosen = (("--topic", sorted(select.topics)), ("--partition", numbers), ("--exclude", sorted(select.excluded)))
    return [word for option, values in chosen for value in values for word in shell_option(option, value)]


def quarantine_words(quarantine: PathLike) -> list[str]:
    """Command-line option that names a quarantine, with an absolute path."""
    return ["--quarantine", os.path.abspath(os.fspath(quarantine))]


_RELEASE = "Predict the start of this release of Kafka [every release that can have written the files]."
_CONFIG = "A topic or broker setting under Kafka's own name; may be repeated."
_CLUSTER_METADATA = (
    "Include KRaft's metadata log. Truncating it can drop committed metadata: prefer another controller."
)
_META_PROPERTIES = "Also rebuild a lost meta.properties from the broker's other log directories and its metadata log."
_MODE = f"How to recover: {', '.join(list(Mode)[:-1])} or {list(Mode)[-1]}."
_REPAIR_BITS = "Correct single flipped bits if the correction is proven at least this strongly."
_COPIES = "Another copy (a broker's volume, a snapshot): show how much a merge would keep; used by --mode merge."
_ACCEPT_LOSS = "Proceed even if records that can still be read would be dropped."
_MARK_CLEAN = "Verify the result on disk, then write a clean-shutdown marker."
QUARANTINE = Option(
    "--quarantine", "Directory to keep removed bytes in [PATH.recovery].", "DIR", True, True, quarantine_words
)
"""Option of all requests whose runs keep removed bytes."""
MOVED = Option("--moved", "The directory of the recorded runs was moved to PATH.", is_of_acting=True)


class Recovery(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request to `plan` and `recover`: how log directories are recovered.

    Raises `UsageError` for a mode or a proof that does not exist.
    """

    at: Annotated[int | None, Option("--at", within=TIMES)] = None
    """the time to treat as now, ms since 1970; None: the clock's"""
    server: Mapping[str, str] = {}
    """the node's own properties, if they are known: settings, and what it compares with `meta.properties`"""
    release: Annotated[str | None, Option("--release", _RELEASE, "VERSION")] = None
    """the release of Kafka whose start is predicted, such as `3.9`; None: every release that can have written the files
    """
    topic_id: Annotated[
        str | None, Option("--topic-id", "Topic id for partitions whose partition.metadata cannot be read.", "UUID")
    ] = None
    """id of the topic, for partitions that have lost theirs if nothing else names it"""
    config: Annotated[Mapping[str, str], Option("--config", _CONFIG, "NAME=VALUE")] = {}
    """settings under Kafka's names; what the cluster's metadata says of a topic takes precedence"""
    select: Annotated[Selection, Option("--topic", words=selection_words)] = ALL
    """the topic-partitions that are meant"""
    full: Annotated[bool, Option("--full", "Also examine segments below the recovery point.")] = False
    """also examine segments below the recovery point, which the broker trusts"""
    cluster_metadata: Annotated[bool, Option("--cluster-metadata", _CLUSTER_METADATA)] = False
    """include KRaft's metadata log"""
    meta_properties: Annotated[bool, Option("--meta-properties", _META_PROPERTIES)] = False
    """write a `meta.properties` that is missing or cannot be read"""
    mode: Annotated[Mode | str, Option("--mode", _MODE, "MODE", is_repeated=False)] = Mode.SAFE
    """how far the recovery may go: a mode or its name"""
    repair_bits: Annotated[Proof | str | None, Option("--repair-bits", _REPAIR_BITS, is_repeated=False)] = None
    """least proof, or its name, for correcting a flipped bit; None: none is corrected"""
    copies: Annotated[Sequence[PathLike], Option("--copy", _COPIES, "DIR", is_repeated=False)] = ()
    """directories with other copies of the partitions; mode merge takes records from them"""
    accept_loss: Annotated[bool, Option("--accept-loss", _ACCEPT_LOSS, is_repeated=False, is_of_acting=True)] = False
    """go on even if records that can still be read would be dropped"""
    complete: Annotated[
        str | None,
        Option("--complete", "Complete this interrupted run although it was started on another "
            "machine.", "RUN", is_repeated=False, is_of_acting=True),
    ] = None
    """id of a run that another machine began, to be completed here"""
    quarantine: Annotated[PathLike | None, QUARANTINE] = None
    """where removed bytes are kept; None: beside each directory"""
    mark_clean: Annotated[bool, Option("--mark-clean", _MARK_CLEAN, is_of_acting=True)] = False
    """verify the result from disk, then write a clean-shutdown marker, so that a broker does not check again"""
    moved: Annotated[bool, MOVED] = False
    """assert that the kept executions are of this directory, although it was moved"""
    topics: TopicFacts | None = None
    """facts about the topics; None: they are read from the metadata log in the directories"""
    remote_logs: RemoteLogSource | None = None
    """remote part of tiered logs. A recovery in place is then in mode remote, and lost logs begin after their remote
    part; `recover_into` copies the remote part back, in any mode
    """
    beside: tuple[str, ...] = ()
    """more directories that a start reads, and that are not changed: log directories of the same brokers, and data
    directories of their ZooKeeper"""

    def __post_init__(self) -> None:
        if type(self) is Recovery:  # what is made of a request was examined with it
            check_fields(self)
        force_setattr(self, "mode", mode_named(self.mode))
        if self.repair_bits is not None:
            force_setattr(self, "repair_bits", _proof_named(self.repair_bits))
        force_setattr(self, "copies", tuple(map(os.fspath, self.copies)))


def _proof_named(proof: Proof | str) -> Proof:
    try:
        return Proof[proof.upper()] if isinstance(proof, str) else Proof(proof)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Proof)
        raise UsageError(f"unknown proof {proof!r}: there is {names}") from None


class Rules(Recovery, frozen=True, kw_only=True, dict=True):
    """Rules for one log directory: a request in which everything that its plan depends on is settled."""

    mode: Mode = Mode.SAFE
    repair_bits: Proof | None = None
    copies: tuple[str, ...] = ()
    identity: bytes | None = None
    """content of the `meta.properties` to write; None: the file is kept"""
    rebuild_indexes: bool = False
    """rebuild every index of sound logs, and truncate nothing"""
    looks_inside: bool = True
    """whether mode salvage treats unreadable records inside a batch as damage"""
    lacking: Mapping[str, StorageError] = {}
    """directories that a copy lacks because they could not be read, with the error"""

    @cached_property
    def _settings(self) -> dict[str, LogSettings]:
        return {}

    @property
    def now_ms(self) -> int:
        """Time to treat as now, in ms since 1970. Raises `AssertionError` if the rules are not settled."""
        if self.at is None:
            raise AssertionError("rules that were not settled")
        return self.at

    @property
    def facts(self) -> TopicFacts:
        """Facts about the topics; `NO_FACTS` if there are none."""
        return NO_FACTS if self.topics is None else self.topics

    @property
    def has_metadata(self) -> bool:
        """Whether the node has a metadata log, in any of its log directories."""
        return self.facts.source is not None

    @property
    def resumes(self) -> bool:
        """Whether a log continues after damage that cannot be repaired."""
        return self.mode.spec.resumes

    @property
    def examines_all(self) -> bool:
        """Whether segments below the recovery point are examined too."""
        examined = self.mode.spec.examined
        is_asked = self.full or self.rebuild_indexes
        return examined is ExaminedSegments.ALL or (examined is ExaminedSegments.AS_ASKED and is_asked)

    @property
    def may_need_full(self) -> bool:
        """Whether the option `full`, which is not set, could let this recovery repair more."""
        spec = self.mode.spec
        return spec.is_compared and spec.examined is not ExaminedSegments.FROM_RECOVERY_POINT and not self.full

    def settings(self, topic: str) -> LogSettings:
        """Settings of the logs of a topic."""
        log_settings = self._settings.get(topic)
        if log_settings is None:
            log_settings = self._settings[topic] = self.facts.settings(topic, self.config)
        return log_settings

    @staticmethod
    def unique(_directory: str) -> str:
        """Return a unique part for the new name of a directory that is set aside (`UnifiedLog.logStrayDirName`)."""
        return uuid.uuid4().hex


def rules_of(request: Recovery, **changes: Any) -> Rules:
    """Return the rules of a request, with other values for some fields."""
    return Rules(**{name: getattr(request, name) for name in request.__struct_fields__} | changes)


def settled(request: Recovery, roots: Iterable[str]) -> Rules:
    """Return the rules for these log directories: the request with all missing values filled in. A missing time becomes
    the clock's; missing facts about topics are read from the metadata log in `roots`. Settings of the request override
    those of the server properties.

    Raises `UsageError` for settings or a topic id that Kafka would refuse.
    """
    LogSettings.from_names(request.config)
    check_topic_id(request.topic_id)
    now = time.time_ns() // 1_000_000 if request.at is None else request.at
    topics = read_topic_facts(roots) if request.topics is None else request.topics
    config = {**LogSettings.from_server_properties(request.server), **request.config}
    return rules_of(request, at=now, topics=topics, config=config)
