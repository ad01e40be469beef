"""Leader epochs in requests: validation, and the end of an epoch."""

from __future__ import annotations

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code
from kafkalog.server.served_log import ServedLog, epoch_end
from kafkalog.server.wire import Fields, Request

__all__ = ["LeaderEpochHandler", "absent_code", "epoch_error"]

_UNKNOWN = -1


def absent_code(catalog: Served, topic: str) -> Code:
    """Return the error code for a partition that is not served: UNKNOWN_TOPIC_OR_PARTITION, or
    TOPIC_AUTHORIZATION_FAILED if the client may not read the topic.
    """
    return Code.UNKNOWN_TOPIC_OR_PARTITION if catalog.permits(topic) else Code.TOPIC_AUTHORIZATION_FAILED


def epoch_error(log: ServedLog, current: int) -> Code:
    """Compare a client's leader epoch `current` with the epoch of the log (`Partition.checkCurrentLeaderEpoch`). Return
    FENCED_LEADER_EPOCH if `current` is older, UNKNOWN_LEADER_EPOCH if it is newer; NONE if both are equal or one is
    unknown (negative).
    """
    if current < 0 or log.leader_epoch < 0 or current == log.leader_epoch:
        return Code.NONE
    return Code.FENCED_LEADER_EPOCH if current < log.leader_epoch else Code.UNKNOWN_LEADER_EPOCH


class LeaderEpochHandler:
    """Answers `OffsetForLeaderEpoch` requests from the leader epochs of the logs."""

    def __init__(self, catalog: Served) -> None:
        self._catalog = catalog

    def offset_for_leader_epoch(self, request: Request) -> Fields:
        """Answer `OffsetForLeaderEpoch`: for each partition the largest leader epoch that is not above the requested
        one, and its end offset (see `epoch_end`). If all epochs of the log are above the requested one, the requested
        epoch and the start of the first epoch are returned. If the requested epoch is negative or above all epochs of
        the log, or the log has none, epoch and offset are -1.

        A partition has an error code if it is not served or its log cannot be read. It has one too if the request has a
        wrong current leader epoch.
        """
        topics = [
            {"topic": topic["topic"], "partitions": [self._one(topic["topic"], each) for each in topic["partitions"]]}
            for topic in request.body["topics"]
        ]
        return {"topics": topics}

    def _one(self, topic: str, asked: Fields) -> Fields:
        number = asked["partition"]
        answer = {"partition": number, "error_code": Code.NONE, "leader_epoch": _UNKNOWN, "end_offset": _UNKNOWN}
        log = self._catalog.log(topic, number)
        if log is None:
            return {**answer, "error_code": absent_code(self._catalog, topic)}
        code = epoch_error(log, asked.get("current_leader_epoch", _UNKNOWN))
        if code is not Code.NONE:
            return {**answer, "error_code": code}
        try:
            epoch, end = epoch_end(log.epochs, asked["leader_epoch"], log.bounds().end)
        except (KafkaLogError, OSError):
            return {**answer, "error_code": Code.KAFKA_STORAGE_ERROR}
        return {**answer, "leader_epoch": epoch, "end_offset": end}
