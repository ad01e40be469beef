"""What `undelete` is asked to bring back, said once for both of its ways: in place, and into another directory."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from msgspec import Struct

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.recovery.facts.topic_ids import check_topic_id

__all__ = ["Wanted"]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Wanted(Struct, frozen=True):
    """What is to be put back, and how."""

    topic: str
    partitions: Sequence[int]
    source: str | None
    """the directory's name or the run's id, where several hold the same partition"""
    as_topic: str | None
    topic_id: str | None
    config: Mapping[str, str] | None
    at: int | None
    hold: bool = False

    def checked(self) -> Self:
        """What is wanted, checked; `UsageError` for a name that no topic can have, and for what is not a topic id."""
        _check_topic_name(self.as_topic)
        check_topic_id(self.topic_id)
        return self

    @property
    def target_topic(self) -> str:
        """The topic that it is put back as."""
        return self.topic if self.as_topic is None else self.as_topic

    def is_source(self, *names: str | None) -> bool:
        """Whether what has these names may be taken."""
        return self.source is None or os.path.basename(self.source.rstrip("/")) in names

    def refuse_several(self, partition: int, names: Collection[str]) -> None:
        """Raise `RecoveryRefused` where there is more than one to choose from."""
        if len(names) > 1:
            raise RecoveryRefused(
                Sentence(
                    f"{self.topic}-{partition} was deleted more than once: {', '.join(names)}; choose one with ",
                    Ask.SOURCE,
                ),
                reason="several",
            )


def _check_topic_name(text: str | None) -> None:
    """Let through what a topic can be called (`org.apache.kafka.common.internals.Topic`)."""
    if text is not None and (_TOPIC.fullmatch(text) is None or text in (".", "..")):
        raise UsageError(f"{text!r} is not a name of a topic: up to 249 letters, digits, dots, hyphens and underscores")
