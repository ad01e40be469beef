"""What would allow what was declined, as a value: whoever called says it in words of their own, Python or a command.

A sentence of the library never names an option of the command line; the command has a table of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

__all__ = ["Advice", "Ask", "Sentence", "in_python", "said"]


class Ask(enum.StrEnum):
    """What can be asked for; its value is how that is written in Python."""

    WAY = "{way}"
    """the recovery that takes a way; `how` and `needs_consent` are those of `Way.as_dict`"""
    COMPLETE = "recover(Recovery(complete='{run}'))"
    UNDO = "undo(run_id='{run}')"
    UNDO_OF = "undo({root!r}, run_id='{run}')"
    RECOVER = "recover()"
    RECOVER_INTO = "recover_into()"
    QUARANTINE = "quarantine"
    MOVED = "moved=True"
    ACCEPT_LOSS = "accept_loss=True"
    RECOVER_TOPIC_ID = "recover(Recovery(topic_id=...))"
    PLAN_METADATA = "plan(Recovery(cluster_metadata=True))"
    LIST_DELETED = "deleted()"
    REPAIR_BITS = "repair_bits"
    TOPIC_ID = "topic_id"
    AS_TOPIC = "as_topic"
    SOURCE = "source"
    HOLD = "hold=True"
    INTO = "into"
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


class Advice(Struct, frozen=True):
    """A part of a sentence around something to be asked for, which stands where the text has `{}`."""

    text: str
    ask: Ask
    values: Mapping[str, Any] = field(default_factory=dict)


def in_python(advice: Advice) -> str:
    """The advice for those who call the library."""
    if advice.ask is not Ask.WAY:
        return advice.text.replace("{}", str(advice.ask).format(**advice.values), 1)
    if advice.values["how"] is None:  # no recovery takes it
        leaders = " or ".join(map(str, advice.values["leaders"]))
        return advice.text.replace("{}", f"broker {leaders} to lead" if leaders else "nothing more", 1)
    given = {name: value for name, value in advice.values["how"].items() if value}
    if advice.values["needs_consent"]:
        given["accept_loss"] = True
    return advice.text.replace("{}", ", ".join(f"{name}={value!r}" for name, value in given.items()), 1)


class Sentence(str):
    """A sentence with things in it to be asked for; as text it is for those who call the library.

    What is made of it by formatting is plain text: put it together with `Sentence` or `joined`.
    """

    parts: tuple[str | Advice, ...]

    def __new__(cls, *parts: str | Advice) -> Sentence:
        """A sentence made of text, of what can be asked for, and of other sentences."""
        flat: list[str | Advice] = []
        for part in parts:
            if isinstance(part, Sentence):
                flat += part.parts
            else:
                flat.append(Advice("{}", part) if isinstance(part, Ask) else part)
        made = super().__new__(cls, "".join(in_python(each) if isinstance(each, Advice) else each for each in flat))
        made.parts = tuple(flat)
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.parts

    def worded(self, words: Callable[[Advice], str]) -> str:
        """The sentence in other words."""
        return "".join(words(each) if isinstance(each, Advice) else each for each in self.parts)

    @classmethod
    def joined(cls, separator: str, sentences: Iterable[str]) -> Sentence:
        """Several in one."""
        parts = [part for each in sentences for part in (separator, each)]
        return cls(*parts[1:])


def said(value: Any, words: Callable[[Advice], str]) -> Any:
    """Plain values with every sentence in them in other words."""
    if isinstance(value, Sentence):
        return value.worded(words)
    if isinstance(value, Mapping):
        return {name: said(each, words) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [said(each, words) for each in value]
    return value
