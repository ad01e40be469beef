"""Where `serve` answers differently from a broker, on purpose, and why: the table of docs/serve.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from testkit.kafka.answer_comparing import Difference

__all__ = ["EXPLAINED", "Explained", "explained", "table"]


@dataclass(frozen=True)
class Explained:
    """A kind of difference; `pattern` is of API, field, and the two values."""

    api: str
    field: str
    ours: str
    theirs: str
    why: str
    pattern: str
    asked: str = ""
    """of the request"""


_ONE = "a name that comes twice is answered once, so that no small request makes a large answer"
EXPLAINED = (
    Explained("Metadata, FindCoordinator, DescribeCluster", "port", "its own", "its own", "they listen at two places",
              r"(Metadata|FindCoordinator|DescribeCluster) (brokers\.|coordinators\.)?port .*"),
    Explained("Fetch", "session_id", "a random number", "another one, or none", "ids of sessions are random",
              r"Fetch session_id .*"),
    Explained("Fetch", "last_stable_offset", "the end, until somebody reads committed data", "always its own",
              "all of a log is read to find it", r"Fetch responses\.partitions\.last_stable_offset 14 10"),
    Explained("Metadata, DescribeTopicPartitions, DescribeCluster, DescribeGroups", "authorized_operations",
              "not told", "all, where there are no ACLs", "nothing but reading is permitted",
              r"\w+ (topics\.|groups\.)?(topic_|cluster_)?authorized_operations -2147483648 .*"),
    Explained("DescribeGroups", "groups", "each once", "as often as asked", _ONE, r"DescribeGroups groups\[\] .*"),
    Explained("OffsetFetch", "groups", "each once", "as often as asked", _ONE, r"OffsetFetch groups\[\] .*"),
    Explained("DescribeProducers", "partitions", "each once", "as often as asked", _ONE,
              r"DescribeProducers topics(\.partitions)?\[\] .*"),
    Explained("DescribeProducers", "error_message", "the name", "and what is wrong with it",
              "the code tells it apart", r"DescribeProducers topics\.partitions\.error_message 'Topic name is.*"),
    Explained("DescribeQuorum", "high_watermark, log_end_offset", "the end of the log that is here", "a later one",
              "a controller goes on to write", r"DescribeQuorum topics\.partitions\.(high_watermark|"
              r"current_voters\.log_end_offset) \d+ \d+"),
    Explained("DescribeQuorum", "last_fetch_timestamp, last_caught_up_timestamp", "not known", "now",
              "no voter fetches from this one", r"DescribeQuorum topics\.partitions\.current_voters\."
              r"last_(fetch|caught_up)_timestamp -1 \d+"),
    Explained("Fetch", "of a topic without id", "`UNKNOWN_TOPIC_ID` for it", "`UNKNOWN_SERVER_ERROR` for the request",
              "no client sends it", r"Fetch (error_code|responses.*) .*", r"'topic_id': 'AAAAAAAAAAAAAAAAAAAAAA'"),
    Explained("Fetch, OffsetCommit", "of what is named twice", "a topic once, and a partition of a fetch once",
              "as often, or once, by the version", _ONE, r"(Fetch|OffsetCommit) .*", r"\[twice\]$"),
    Explained("ListOffsets", "offset", "none, where only markers of transactions are so late", "that of the marker",
              "a marker is not a record", r"ListOffsets topics\.partitions\.(offset|timestamp|leader_epoch) -1 .*",
              r"'timestamp': \d"),
    Explained("Fetch", "records", "whole batches", "the last one may be cut, and clients drop it",
              "nothing is read twice", r"Fetch responses\.partitions\.records .*"),
    Explained("Fetch", "current_leader", "not told", "its own id, beside some errors", "there is no other leader",
              r"Fetch responses\.partitions\.current_leader.*"),
    Explained("Fetch, ListOffsets", "of a level of isolation that there is not", "one error for the request",
              "the same, or answers as far as it came", "no client sends it", r"(Fetch|ListOffsets) .*",
              r"'isolation_level': (2|-1)"),
    Explained("Fetch", "of another broker", "`NOT_LEADER_OR_FOLLOWER` for each partition",
              "an error for the request too", "no broker follows this one", r"Fetch (error_code|responses.*) .*",
              r"'replica_id': 5"),
    Explained("Metadata", "of a topic without name and id", "`UNKNOWN_TOPIC_ID`", "`UNKNOWN_SERVER_ERROR` for all",
              "no client sends it", r"Metadata .*", r"'topic_id': 'AAAAAAAAAAAAAAAAAAAAAA', 'name': None"),
)  # fmt: skip


def explained(difference: Difference) -> Explained | None:
    """Why two answers differ; None if nobody says."""
    text = f"{difference.api} {difference.path} {difference.ours!r} {difference.theirs!r}"
    return next(
        (each for each in EXPLAINED
         if re.fullmatch(each.pattern, text, re.DOTALL) and re.search(each.asked, difference.asked)), None
    )  # fmt: skip


def table() -> str:
    """The table of docs/serve.md."""
    lines = ["| request | what | here | a broker | why |", "|---|---|---|---|---|"]
    lines += [f"| {each.api} | {each.field} | {each.ours} | {each.theirs} | {each.why} |" for each in EXPLAINED]
    return "\n".join(lines)
