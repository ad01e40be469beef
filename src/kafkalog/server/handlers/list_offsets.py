"""ListOffsets: first and next offset, and offsets by timestamp (`UnifiedLog.fetchOffsetByTimestamp`).

A search by timestamp may walk a log, so it belongs into a worker.
"""

from __future__ import annotations

from collections import Counter

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.walk.sliced import Sliced, run_slices
from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code
from kafkalog.server.handlers.leader_epochs import absent_code, epoch_error
from kafkalog.server.served_log import ServedLog
from kafkalog.server.wire import Fields, Request
from kafkalog.tiers.reading import TierBounds, tier_bounds

__all__ = ["LATEST", "ListOffsetsHandler"]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
_UNKNOWN = -1


class ListOffsetsHandler:
    """Answers `ListOffsets` requests from the bounds and batches of the logs."""

    def __init__(self, catalog: Served) -> None:
        self._catalog = catalog

    def is_quick(self, request: Request) -> bool:
        """Whether the request can be answered from the bounds of logs alone, without a search."""
        committed = request.body.get("isolation_level", 0) == 1
        times = {each["timestamp"] for topic in request.body["topics"] for each in topic["partitions"]}
        return times <= ({EARLIEST} if committed else {EARLIEST, LATEST})

    def list_offsets(self, request: Request) -> Fields:
        """Answer `ListOffsets` at once, without slices; see `find_offsets`. For requests that are quick."""
        return run_slices(self.find_offsets(request))

    def find_offsets(self, request: Request) -> Sliced[Fields]:
        """Answer `ListOffsets`, one partition per slice: a generator that returns the response and yields after each
        partition and within long searches.

        The offset of a partition is -1 if no record is found. A partition named twice has the error INVALID_REQUEST, as
        in `KafkaApis`. There is also an error code for an unsupported special timestamp, a wrong leader epoch, and a
        partition that is not served or cannot be read.
        """
        named = Counter((topic["name"], each["partition_index"])
                        for topic in request.body["topics"] for each in topic["partitions"])  # fmt: skip
        found: dict[str, dict[int, Fields]] = {}
        for topic in request.body["topics"]:
            partitions = found.setdefault(topic["name"], {}) if topic["partitions"] else {}
            for each in topic["partitions"]:
                number = each["partition_index"]
                if named[topic["name"], number] > 1:
                    partitions[number] = {**_nothing(number), "error_code": Code.INVALID_REQUEST}
                    continue
                partitions[number] = yield from self._one(topic["name"], each, request)
                yield
        return {"topics": [{"name": name, "partitions": list(each.values())} for name, each in found.items()]}

    def _one(self, topic: str, asked: Fields, request: Request) -> Sliced[Fields]:
        number = asked["partition_index"]
        answer = _nothing(number)
        when = asked["timestamp"]
        if when < EARLIEST_PENDING or request.version < _FIRST_VERSION.get(when, 0):
            return {**answer, "error_code": Code.UNSUPPORTED_VERSION}
        log = self._catalog.log(topic, number)
        if log is None:
            return {**answer, "error_code": absent_code(self._catalog, topic)}
        code = epoch_error(log, asked.get("current_leader_epoch", _UNKNOWN))
        if code is not Code.NONE:
            return {**answer, "error_code": code}
        try:
            found = yield from _find(log, when, committed=request.body.get("isolation_level", 0) == 1)
        except (KafkaLogError, OSError):
            return {**answer, "error_code": Code.KAFKA_STORAGE_ERROR}
        if found is None:
            return answer
        return {**answer, "offset": found.offset, "timestamp": found.timestamp, "leader_epoch": found.leader_epoch}


def _nothing(number: int) -> Fields:
    return {"partition_index": number, "error_code": Code.NONE, "timestamp": _UNKNOWN, "offset": _UNKNOWN,
            "leader_epoch": _UNKNOWN}  # fmt: skip


def _find(log: ServedLog, when: int, *, committed: bool) -> Sliced[OffsetAndTimestamp | None]:
    bounds = log.bounds()
    if when == EARLIEST:
        return OffsetAndTimestamp(bounds.start, _UNKNOWN, _epoch_at(log, bounds.start))
    if when == LATEST:
        end = (yield from log.finding_committed()).last_stable_offset if committed else bounds.end
        return OffsetAndTimestamp(end, _UNKNOWN, log.leader_epoch)
    if when in (EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING):
        offset = _of_tiers(when, bounds.start, tier_bounds(bounds.partition))
        return OffsetAndTimestamp(offset, _UNKNOWN, _epoch_at(log, offset))
    offset_and_timestamp = yield from log.of_time(None if when == MAX_TIMESTAMP else when)
    limit = (yield from log.finding_committed()).last_stable_offset if committed else bounds.end
    return offset_and_timestamp if offset_and_timestamp is not None and offset_and_timestamp.offset < limit else None


def _of_tiers(when: int, start: int, tiers: TierBounds | None) -> int:
    """Return the answer of `UnifiedLog` to the special timestamp `when`:

    * EARLIEST_LOCAL: the start of the local part
    * LATEST_TIERED: the last remote offset, -1 if there is none
    * EARLIEST_PENDING: the offset after the last remote one, but at least `start`

    `start` is the log start offset, `tiers` the bounds of the two tiers. Without remote storage (`tiers` is None) the
    answer is `start` for EARLIEST_LOCAL, and -1 otherwise.
    """
    if tiers is None:
        return start if when == EARLIEST_LOCAL else _UNKNOWN
    if when == EARLIEST_LOCAL:
        return tiers.local_log_start
    if when == LATEST_TIERED:
        return tiers.highest_remote_offset
    return max(tiers.highest_remote_offset + 1, start)


def _epoch_at(log: ServedLog, offset: int) -> int:
    """Return the leader epoch of an offset; -1 if unknown."""
    return max((epoch.epoch for epoch in log.epochs if epoch.start_offset <= offset), default=_UNKNOWN)
