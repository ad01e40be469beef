"""DescribeProducers: producer state of a log, found by a walk (`ProducerStateManager.activeProducers`)."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from kafkalog.cluster.transactions.producers import PartitionProducer, read_producers
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.log.walk.sliced import Sliced
from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.handlers.metadata import missing_code
from kafkalog.server.served_log import Bounds
from kafkalog.server.wire import Fields, Request

__all__ = ["ProducersHandler"]

_NONE = -1
_NOT_HERE = "This server does not host this topic-partition."
_REMEMBERED = 100
"""Number of partitions whose result is remembered."""


class ProducersHandler:
    """Answers `DescribeProducers` requests by reading the logs, one partition per slice. Results are kept while a log
    is unchanged.
    """

    def __init__(self, catalog: Served) -> None:
        self._catalog = catalog
        self._known: OrderedDict[tuple[str, int], tuple[Bounds, list[Fields]]] = OrderedDict()
        self._lock = Lock()

    def describe_producers(self, request: Request) -> Sliced[Fields]:
        """Answer `DescribeProducers`: the active producers of each requested partition. A generator that returns the
        response and yields after each partition.

        A partition that is named twice for a topic is in the response once. A partition that is not served, or a log
        that cannot be read, has an error code. The results of up to 100 partitions are kept while their logs are
        unchanged.
        """
        topics: list[Fields] = []
        for topic in request.body["topics"]:
            partitions: list[Fields] = []
            for number in dict.fromkeys(topic["partition_indexes"]):
                partitions.append(self._one(topic["name"], number))
                yield
            topics.append({"name": topic["name"], "partitions": partitions})
        return {"topics": topics}

    def _one(self, topic: str, number: int) -> Fields:
        answer: Fields = {"partition_index": number, "error_code": Code.NONE, "error_message": None,
                          "active_producers": []}  # fmt: skip
        log = self._catalog.log(topic, number)
        if log is None:
            code = missing_code(self._catalog, topic)
            message: str | None = None  # of a partition that a known topic does not have, a broker says nothing
            if code is Code.INVALID_TOPIC_EXCEPTION:
                message = f"Topic name is invalid: {brief(topic)}"
            elif topic not in self._catalog.topics and code is Code.UNKNOWN_TOPIC_OR_PARTITION:
                message = _NOT_HERE
            return {**answer, "error_code": code, "error_message": message}
        try:
            bounds = log.bounds()
            with self._lock:
                kept = self._known.get((topic, number))
            if kept is None or kept[0] != bounds:
                (partition_producers,) = read_producers([bounds.partition])
                kept = bounds, [_fields(producer) for producer in partition_producers.producers]
                with self._lock:
                    self._known[topic, number] = kept
                    while len(self._known) > _REMEMBERED:
                        self._known.popitem(last=False)
        except (KafkaLogError, OSError):
            return {**answer, "error_code": Code.KAFKA_STORAGE_ERROR}
        return {**answer, "active_producers": kept[1]}


def _fields(producer: PartitionProducer) -> Fields:
    epoch, start = producer.coordinator_epoch, producer.transaction_start
    return {
        "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence, "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": _NONE if epoch is None else epoch,
        "current_txn_start_offset": _NONE if start is None else start,
    }  # fmt: skip
