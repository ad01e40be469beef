"""The request to restore deleted data, in place or into another directory."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Self

import msgspec

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.arguments import TIMES, check_fields
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.options import Option
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing.topics import check_topic
from kafkalog.recovery.facts.topic_ids import check_topic_id

__all__ = ["Undelete"]


class Undelete(msgspec.Struct, frozen=True, kw_only=True):
    """A request to `undelete` or `undelete_into`: which deleted data is restored, and as what."""

    topic: str
    """name of the deleted topic"""
    partitions: Sequence[int] = ()
    """numbers of partitions; empty: all"""
    source: Annotated[
        str | None, Option("--source", "Directory or run to restore from if a partition has several.", "NAME")
    ] = None
    """name of the deleted directory or id of the run, if several hold the same partition"""
    as_topic: Annotated[
        str | None, Option("--as", "Topic name under which deleted partitions are restored.", "TOPIC")
    ] = None
    """another topic name for what is restored"""
    topic_id: Annotated[
        str | None,
        Option("--topic-id", "The topic's id in the cluster [from the metadata log, else that of the empty partition "
            "in its place, else its own].", "ID"),
    ] = None  # fmt: skip
    """topic id in the cluster; None: the id in the metadata log, else that of an empty partition in its place, else its
    own
    """
    hold: Annotated[
        bool, Option("--hold", "Only prevent the broker from removing the data: rename -delete directories to -stray.")
    ] = False
    """only rename `-delete` directories to `-stray`, which no broker removes, so that the topic can be created first"""
    config: Annotated[
        Mapping[str, str],
        Option("--config", "A topic or broker setting under Kafka's own name; may be repeated.", "NAME=VALUE"),
    ] = {}
    """settings under Kafka's names"""
    at: Annotated[int | None, Option("--at", within=TIMES)] = None
    """the time to treat as now, ms since 1970; None: the clock's"""
    quarantine: Annotated[
        PathLike | None,
        Option("--quarantine", "Directory to keep removed bytes in, and to search for them [PATH.recovery].", "DIR"),
    ] = None
    """where runs keep what they removed, if it is not the usual place"""

    def __post_init__(self) -> None:
        check_fields(self)

    def checked(self) -> Self:
        """Return the request itself, unchanged. Raises `UsageError` for an invalid `as_topic`, an impossible topic id,
        or a `topic` that no directory can be named after. `topic` may break the rules for names, as the topics of old
        brokers may.
        """
        if "/" in self.topic or "\0" in self.topic or not self.topic:
            raise UsageError(f"{self.topic!r} is not the name of a topic: no directory is named after it")
        if self.as_topic is not None:
            check_topic(self.as_topic)
        check_topic_id(self.topic_id)
        return self

    @property
    def target_topic(self) -> str:
        """Topic under which the data is restored."""
        return self.topic if self.as_topic is None else self.as_topic

    def is_source(self, *names: str | None) -> bool:
        """Whether the request allows a source with one of these names."""
        return self.source is None or os.path.basename(self.source.rstrip("/")) in names

    def nothing_in(self, where: str) -> RecoveryRefused:
        """Return a `RecoveryRefused` with the message that `where` has no such deleted data; the caller raises it."""
        of = self.topic + "".join(f"-{number}" for number in self.partitions[:1])
        source = "" if self.source is None else f" from the source {self.source!r}"
        lacking = f"no deleted directory or segment of {of}{source} is in {where}: "
        return RecoveryRefused(Sentence(lacking, Ask.LIST_DELETED, " lists what there is"), reason="nothing")

    def refuse_several(self, partition: int, names: Collection[str]) -> None:
        """Raise `RecoveryRefused` if there are several `names`: deleted directories or executions that have the
        partition. The user must choose one.
        """
        if len(names) > 1:
            raise RecoveryRefused(
                Sentence(
                    f"{self.topic}-{partition} was deleted more than once: {', '.join(names)}; choose one with ",
                    Ask.SOURCE,
                ),
                reason="several",
            )
