"""What decides what becomes of a log directory besides its bytes: one object, from the command to each partition."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from kafkalog.classes import dataclass
from kafkalog.codec.errors import UsageError
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts, read_topic_facts
from kafkalog.recovery.facts.topic_ids import check_topic_id

__all__ = ["Rules", "mode_named"]


def mode_named(mode: Mode | str) -> Mode:
    """The mode of this name; `UsageError` if there is none."""
    try:
        return Mode(mode)
    except ValueError:
        raise UsageError(f"unknown mode {mode!r}: there is {', '.join(Mode)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a recovery decides; `settled` before the first directory is examined."""

    mode: Mode = Mode.SAFE
    config: Mapping[str, str] = field(default_factory=dict)
    """settings under Kafka's names; what the cluster knew of a topic wins"""
    at: int | None = None
    """the time in ms to treat as now; None: the time at which the rules are settled"""
    full: bool = False
    """segments below the recovery point too"""
    repair_bits: Proof | None = None
    """least proof for turning a flipped bit back; None: never"""
    topic_id: str | None = None
    """for partitions that have lost theirs, where nothing else tells it"""
    cluster_metadata: bool = False
    """the metadata log of KRaft too"""
    meta_properties: bool = False
    """a `meta.properties` that is lost or cannot be read is rewritten"""
    identity: bytes | None = None
    """that file, once the rules are settled for a log directory; None: it stays as it is"""
    rebuild_indexes: bool = False
    """rebuild every index of sound logs, and cut nothing"""
    looks_inside: bool | None = None
    """what cannot be read inside of a batch is taken out as other damage, by mode salvage; None: yes"""
    release: str | None = None
    """the release of Kafka whose start is asked about; None: every release that can have written the files"""
    server: Mapping[str, str] = field(default_factory=dict)
    """the node's own properties, if they were given"""
    topics: TopicFacts | None = None
    """what the cluster knew of the topics; None: read it from the log directories themselves"""
    _settings: dict[str, LogSettings] = field(default_factory=dict, init=False, repr=False, compare=False)

    def settled(self, roots: Iterable[str]) -> Rules:
        """With the time and the topics filled in; raises `UsageError` for settings or an id that Kafka would refuse."""
        LogSettings.from_names(self.config)
        check_topic_id(self.topic_id)
        now = time.time_ns() // 1_000_000 if self.at is None else self.at
        looks = True if self.looks_inside is None else self.looks_inside
        topics = read_topic_facts(roots) if self.topics is None else self.topics
        return replace(self, at=now, topics=topics, looks_inside=looks)

    @property
    def now_ms(self) -> int:
        """The time to treat as now."""
        if self.at is None:
            raise AssertionError("rules that were not settled")
        return self.at

    @property
    def facts(self) -> TopicFacts:
        """What is known of the topics."""
        return NO_FACTS if self.topics is None else self.topics

    @property
    def resumes(self) -> bool:
        """A log goes on after damage."""
        return self.mode is Mode.SALVAGE

    @property
    def examines_all(self) -> bool:
        """No segment is believed because it lies below the recovery point."""
        return self.full or self.resumes or self.rebuild_indexes

    def settings(self, topic: str) -> LogSettings:
        """What decides the bytes of a topic's partitions."""
        found = self._settings.get(topic)
        if found is None:
            found = self._settings[topic] = self.facts.settings(topic, self.config)
        return found

    @staticmethod
    def unique(_directory: str) -> str:
        """What makes the name of a directory unique that is set aside (`UnifiedLog.logStrayDirName`)."""
        return uuid.uuid4().hex
