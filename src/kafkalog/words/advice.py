"""Express the library's advice, which names parameters and functions, in the options and commands of the command
line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import convert

from kafkalog.codec.common.advice import Advice, Ask, said
from kafkalog.codec.common.shell import shell_word

__all__ = ["WORDS", "in_options", "told"]

WORDS: Mapping[Ask, str] = {
    Ask.ACCEPT_LOSS: "--accept-loss",
    Ask.QUARANTINE: "--quarantine",
    Ask.MOVED: "--moved",
    Ask.RECOVER: "`kafkalog recover {root}`",
    Ask.RECOVER_INTO: "`kafkalog recover {root} --into DIR`",
    Ask.COMPLETE: "`kafkalog recover {root} --complete {run}`",
    Ask.UNDO: "`kafkalog undo {root} --run {run}`",
    Ask.RECOVER_TOPIC_ID: "`kafkalog recover {root} --topic-id ID`",
    Ask.PLAN_METADATA: "kafkalog plan {root} --cluster-metadata",
    Ask.LIST_DELETED: "`undelete` without --topic",
    Ask.REPAIR_BITS: "--repair-bits",
    Ask.TOPIC_ID: "--topic-id",
    Ask.AS_TOPIC: "--as",
    Ask.SOURCE: "--source",
    Ask.HOLD: "--hold",
    Ask.INTO: "--into",
    Ask.UNDELETE_INTO: "--into",
    Ask.CONFIG: "--config",
    Ask.NODE: "--node",
    Ask.LISTENER: "--listener",
    Ask.ENDPOINT: "--endpoint",
    Ask.VOTERS: "--voters",
    Ask.PROPERTIES: "--properties",
    Ask.BROKER: "--broker",
    Ask.DYNAMIC: "--dynamic",
    Ask.OTHERS_ARE_GONE: "--others-are-gone",
    Ask.STANDALONE: "--standalone",
    Ask.FROM_BROKER: "--from-broker",
    Ask.REPLICA: "--replica",
    Ask.REPLICA_IS: "--replica {replica}",
    Ask.CHROOT: "--chroot",
    Ask.AS_OF: "--as-of",
    Ask.AT_OFFSET: "--at-offset",
    Ask.AT_ZXID: "--zxid",
    Ask.AGAINST: "--against",
    Ask.DEPARTED: "--without",
    Ask.METADATA: "--metadata",
    Ask.METADATA_AT: "--metadata {path}",
    Ask.OFFSETS_PARTITIONS: "--offsets-partitions",
    Ask.GROWN: "--partitions",
    Ask.GROWN_TO: "--partitions {topic}=N",
    Ask.HISTORY: "--history",
    Ask.EFFECTIVE: "--effective",
    Ask.SUBSCRIBED: "--subscribe",
    Ask.SUBSCRIBED_TO: "--subscribe {topic}",
}

_WORDS = ("root", "replica")
"""values that are quoted for a shell"""


def in_options(advice: Advice) -> str:
    """Return the text of an advice with the options and commands of the command line in place of the library's
    parameters and functions.
    """
    if advice.ask is not Ask.WAY:
        values = {name: shell_word(str(value)) if name in _WORDS else value for name, value in advice.values.items()}
        return advice.text.replace("{}", WORDS[advice.ask].format(**values), 1)
    from kafkalog.recovery.decide.ways_json import WayJson  # with a table of ways: most advice is of no way
    from kafkalog.words.ways import needs_line

    way = convert(advice.values, WayJson)
    return advice.text.replace("{}", needs_line(way) or "nothing more", 1)


def told(value: Any) -> Any:
    """Return plain values, or one sentence, with every advice in them replaced by its text for the command line."""
    return said(value, in_options)
