"""Advice in an error or finding: what the caller can request instead. It is kept as a value, which Python and the
command line put into their own words. A sentence of the library never names a command-line option; the command line has
its own table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

__all__ = ["Advice", "Ask", "Sentence", "in_python", "said"]


@enum.unique
class Ask(enum.StrEnum):
    """What a caller can request. The value is the Python notation for it."""

    WAY = "{way}"
    """recovery by one of the ways; `how` and `needs_consent` are those of `RecoveryWay`"""
    COMPLETE = "recover(Recovery(complete='{run}'), {root!r})"
    UNDO = "undo(Undo(run_ids=['{run}']), {root!r})"
    RECOVER = "recover({root!r})"
    RECOVER_INTO = "recover_into(Recovery(), {root!r}, target=...)"
    QUARANTINE = "quarantine"
    MOVED = "moved=True"
    ACCEPT_LOSS = "accept_loss=True"
    RECOVER_TOPIC_ID = "recover(Recovery(topic_id=...), {root!r})"
    PLAN_METADATA = "plan(Recovery(cluster_metadata=True), {root!r})"
    LIST_DELETED = "deleted()"
    REPAIR_BITS = "repair_bits"
    TOPIC_ID = "topic_id"
    AS_TOPIC = "as_topic"
    SOURCE = "source"
    HOLD = "hold=True"
    INTO = "into"
    UNDELETE_INTO = "undelete_into(Undelete(...), directory, target=...)"
    CONFIG = "config"
    NODE = "node"
    LISTENER = "listener"
    ENDPOINT = "endpoints"
    VOTERS = "voters"
    PROPERTIES = "properties"
    BROKER = "brokers"
    DYNAMIC = "becomes_dynamic=True"
    OTHERS_ARE_GONE = "others_are_gone=True"
    STANDALONE = "QuorumWay.STANDALONE"
    FROM_BROKER = "QuorumWay.FROM_BROKER"
    REPLICA = "replica"
    REPLICA_IS = "replica={replica!r}"
    CHROOT = "chroot"
    AS_OF = "as_of"
    AT_OFFSET = "as_of.offset"
    AT_ZXID = "as_of.zxid"
    AGAINST = "against"
    DEPARTED = "brokers=[...]"
    METADATA = "metadata"
    METADATA_AT = "metadata={path!r}"
    OFFSETS_PARTITIONS = "offsets_partitions"
    SUBSCRIBED_TO = "topics=[{topic!r}]"
    SUBSCRIBED = "topics"
    GROWN = "partitions"
    GROWN_TO = "partitions={{{topic!r}: N}}"
    HISTORY = "offset_history()"
    EFFECTIVE = "effective_settings()"


class Advice(Struct, frozen=True):
    """Part of a sentence that names something the caller can request. `text` has `{}` at the place of the request."""

    text: str
    ask: Ask
    values: Mapping[str, Any] = field(default_factory=dict)


def in_python(advice: Advice) -> str:
    """Return the advice as text for callers of the library. The first `{}` of its text is replaced by the request in
    Python notation, such as arguments of a recovery. If no recovery can help (`how` is None), it is replaced by words
    that name the brokers in `leaders`, such as "broker 1 or 2 to lead". Without leaders the words are "nothing more".
    """
    if advice.ask is not Ask.WAY:
        return advice.text.replace("{}", str(advice.ask).format(**advice.values), 1)
    if advice.values["how"] is None:  # no recovery can do it
        leaders = " or ".join(map(str, advice.values["leaders"]))
        return advice.text.replace("{}", f"broker {leaders} to lead" if leaders else "nothing more", 1)
    arguments = {name: value for name, value in advice.values["how"].items() if value}
    if advice.values["needs_consent"]:
        arguments["accept_loss"] = True
    return advice.text.replace("{}", ", ".join(f"{name}={value!r}" for name, value in arguments.items()), 1)


class Sentence(str):
    """Sentence that may contain advice. As a str it is worded for callers of the library. Formatting it gives plain
    text; use `Sentence` or `joined` to keep the advice.
    """

    parts: tuple[str | Advice, ...]

    def __new__(cls, *parts: str | Advice) -> Sentence:
        """Make a sentence from texts, advice and other sentences, joined without separator. A bare `Ask` becomes advice
        without more text. `parts` of the new sentence has the texts and advice in order; a sentence among the arguments
        is replaced by its own parts.
        """
        flat: list[str | Advice] = []
        for part in parts:
            if isinstance(part, Sentence):
                flat += part.parts
            else:
                flat.append(Advice("{}", part) if isinstance(part, Ask) else part)
        sentence = super().__new__(cls, "".join(in_python(item) if isinstance(item, Advice) else item for item in flat))
        sentence.parts = tuple(flat)
        return sentence

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.parts

    def worded(self, words: Callable[[Advice], str]) -> str:
        """Return the sentence as text in which `words` renders each piece of advice."""
        return "".join(words(part) if isinstance(part, Advice) else part for part in self.parts)

    @classmethod
    def joined(cls, separator: str, sentences: Iterable[str]) -> Sentence:
        """Return one sentence made of several, with `separator` between them."""
        parts = [part for sentence in sentences for part in (separator, sentence)]
        return cls(*parts[1:])


def said(value: Any, words: Callable[[Advice], str]) -> Any:
    """Return a copy of `value` (nested dicts, lists, tuples, scalars) in which each `Sentence` is a str whose advice is
    rendered by `words`. Mappings become dicts, tuples become lists; other values are returned as they are.
    """
    if isinstance(value, Sentence):
        return value.worded(words)
    if isinstance(value, Mapping):
        return {name: said(each, words) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [said(each, words) for each in value]
    return value
