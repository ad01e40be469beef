"""DescribeQuorum from the metadata log in the directories (`KafkaRaftClient`, `LeaderState`)."""

from __future__ import annotations

from threading import Lock

from kafkalog.cluster.kraft.quorum_log import QuorumLog, read_quorum_log
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.files.quorum_state import NO_DIRECTORY
from kafkalog.codec.files.text import encode_uuid
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code
from kafkalog.server.wire import Fields, Request

__all__ = ["QuorumHandler"]

_UNKNOWN = -1
_THE_PARTITION = [(CLUSTER_METADATA_TOPIC, [0])]


class QuorumHandler:
    """Answers `DescribeQuorum` from the log of the cluster's metadata. This server has no followers, so only its own
    log end offset is known.
    """

    def __init__(self, catalog: Served) -> None:
        self._catalog = catalog
        self._lock = Lock()
        self._read: tuple[object, QuorumLog] | None = None

    def describe_quorum(self, request: Request) -> Fields:
        """Answer `DescribeQuorum` for partition 0 of `__cluster_metadata`, the only one accepted: leader (-1 if
        unknown), voters, and the end of this server's copy of the log as the high watermark. Reads the metadata log,
        which may take a while; the result is kept until the log changes.

        If something else is requested, or the log is missing or cannot be read, each partition has
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        asked = [(topic["topic_name"], [each["partition_index"] for each in topic["partitions"]])
                 for topic in request.body["topics"]]  # fmt: skip
        log = self._quorum_log() if asked == _THE_PARTITION else None
        if log is None:
            return {"error_code": Code.NONE, "error_message": "", "nodes": [], "topics": [
                {"topic_name": name, "partitions": [_missing(number) for number in numbers]} for name, numbers in asked
            ]}  # fmt: skip
        partition = {**_missing(0), "error_code": Code.NONE, "error_message": "", **_described(log)}
        return {"error_code": Code.NONE, "error_message": "", "nodes": _nodes(log),
                "topics": [{"topic_name": CLUSTER_METADATA_TOPIC, "partitions": [partition]}]}  # fmt: skip

    def _quorum_log(self) -> QuorumLog | None:
        partition = self._catalog.metadata
        if partition is None:
            return None
        stamp = partition.path, partition.segments
        with self._lock:
            if self._read is None or self._read[0] != stamp:
                try:
                    self._read = stamp, read_quorum_log(partition.path)
                except (KafkaLogError, OSError):
                    return None
            return self._read[1]


def _missing(number: int) -> Fields:
    message = "This server does not host this topic-partition."
    return {
        "partition_index": number, "error_code": Code.UNKNOWN_TOPIC_OR_PARTITION, "error_message": message,
        "leader_id": 0, "leader_epoch": 0, "high_watermark": 0, "current_voters": [], "observers": [],
    }  # fmt: skip


def _described(log: QuorumLog) -> Fields:
    state = log.state
    directories = {voter.voter_id: encode_uuid(voter.directory_id) for voter in log.voters}
    voters = [
        {"replica_id": voter_id, "replica_directory_id": directories.get(voter_id, NO_DIRECTORY),
         "log_end_offset": log.end if voter_id == log.node else _UNKNOWN, "last_fetch_timestamp": _UNKNOWN,
         "last_caught_up_timestamp": _UNKNOWN}
        for voter_id in log.voter_ids
    ]  # fmt: skip
    return {
        "leader_id": _UNKNOWN if state is None else state.leader_id, "leader_epoch": log.latest_epoch,
        "high_watermark": log.end, "current_voters": voters,
    }  # fmt: skip


def _nodes(log: QuorumLog) -> list[Fields]:
    return [
        {"node_id": voter.voter_id,
         "listeners": [{"name": one.name, "host": one.host, "port": one.port} for one in voter.endpoints]}
        for voter in log.voters
    ]  # fmt: skip
