"""Access to the live cluster through librdkafka; this is the only module of the package that uses a client."""

from __future__ import annotations

import errno
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.extras import needed

if TYPE_CHECKING:
    from kafkalog.codec.model import Record
    from kafkalog.replay.groups import Moved

__all__ = ["CHECKED_SECONDS", "PROGRESS_SETTINGS", "AbortedError", "ClusterError", "Target", "progress_topic"]

_TIMEOUT = 30.0
_FLUSH_SECONDS = 120.0
_PROGRESS_SECONDS = 60.0
"""Timeout in seconds if reading the progress topic returns nothing new."""
PROGRESS_SETTINGS = {"cleanup.policy": "compact"}
_TRANSACTION_MS = 60_000
_LARGEST_MESSAGE = 1_000_000_000
CHECKED_SECONDS = 0.2
"""Longest time in seconds between two checks whether the replay should end."""
_POLLED_EACH = 256
"""Records between two polls for delivery reports."""
Key = tuple[str, int]


def _silent() -> logging.Logger:
    """Return the logger `kafkalog.replay` for librdkafka's messages. It discards them, because errors are raised to the
    caller instead, unless the application has added a handler to it.
    """
    logger = logging.getLogger("kafkalog.replay")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    return logger


class ClusterError(StorageError):
    """The cluster cannot be reached, or refuses a request; `filename` is its address."""


def _cluster_error(bootstrap: str, what: str) -> ClusterError:
    return ClusterError(errno.EIO, what, bootstrap)


def progress_topic(identity: str) -> str:
    """Name of the target's topic that records the progress of a replay, which is also the name of its transactions.

    Each replay has its own. Therefore only one writer uses the name, and open transactions of other replays do not hide
    its progress.
    """
    return f"kafkalog-replay-{identity}"


def _read_progress(topic: str, message: Any) -> tuple[Key, int]:
    try:
        key, value = json.loads(message.key()), json.loads(message.value())
        return (str(key["topic"]), int(key["partition"])), int(value["next_offset"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise RecoveryRefused(
            f"the target's {topic} has a record at offset {message.offset()} that this replay did not write; nothing "
            "was changed. Give --id for another replay.",
            reason="not_empty",
        ) from None


class AbortedError(Exception):
    """The transaction was aborted and can be retried."""


class Target:
    """The cluster at `bootstrap` (`HOST:PORT` of a broker); a context manager, which aborts an open transaction after
    an error.

    `settings` are librdkafka's. `identity` names the transactions and the topic with their progress. `check` is called
    while records are being sent; an error that it raises ends the sending. Methods raise `ClusterError` if the cluster
    fails, and `RecoveryRefused` if another process writes with the same identity. The constructor raises `UsageError`
    for settings that librdkafka rejects, or if confluent-kafka is not installed.
    """

    def __init__(
        self, bootstrap: str, identity: str, settings: Mapping[str, str], *, compression: str, batch_bytes: int,
        check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        with needed("replay", "replay"):
            import confluent_kafka
            import confluent_kafka.admin

        self.bootstrap = bootstrap
        self._check = check
        self._identity = identity
        self._kafka: Any = confluent_kafka
        self._admin_module: Any = confluent_kafka.admin
        self.progress_topic = progress_topic(identity)
        common: dict[str, Any] = {
            **settings,
            "bootstrap.servers": bootstrap,
            "logger": _silent(),
            "error_cb": self._note,
        }
        self._last_error = ""
        try:
            self._admin: Any = confluent_kafka.admin.AdminClient(dict(common))
            self._consumer: Any = confluent_kafka.Consumer({
                **common, "group.id": self.progress_topic, "enable.auto.commit": False, "enable.partition.eof": True,
                "isolation.level": "read_committed", "allow.auto.create.topics": False,
            })  # fmt: skip
            self._producer: Any = confluent_kafka.Producer({
                **common, "transactional.id": self.progress_topic, "transaction.timeout.ms": _TRANSACTION_MS,
                "message.max.bytes": _LARGEST_MESSAGE, "batch.size": max(batch_bytes, 1024), "linger.ms": 20,
                "compression.type": compression,
            })  # fmt: skip
        except confluent_kafka.KafkaException as error:
            raise UsageError(f"librdkafka does not take these settings: {error.args[0].str()}") from None
        self._is_ready = False

    def _note(self, error: Any) -> None:
        self._last_error = error.str()

    @contextmanager
    def _translated_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._kafka.KafkaException as error:
            raise self._error(doing, error) from None
        except TimeoutError:  # of a future
            raise _cluster_error(self.bootstrap, f"{doing}: there was no answer in time") from None

    def _error(self, doing: str, error: Any) -> ClusterError | RecoveryRefused:
        reason = error.args[0]
        if reason.code() == self._kafka.KafkaError._FENCED:  # noqa: SLF001 - public in librdkafka
            return RecoveryRefused(
                f"{self.bootstrap}: another process has gone on with the replay {self._identity}, and this one has "
                "ended; what it had committed is kept. Leave the other one to it, or give --id for another replay.",
                reason="fenced",
            )
        with suppress(self._kafka.KafkaException):
            self._admin.poll(0)  # to be reason why
        more = f" ({self._last_error})" if self._last_error and reason.code() < 0 else ""
        return _cluster_error(self.bootstrap, f"{doing}: {reason.str()}{more}")

    # -- what is there -----------------------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """Id of the cluster; empty if it has none. Raises `ClusterError` if it cannot be reached."""
        with self._translated_errors("cannot reach the cluster"):
            return str(self._admin.list_topics(timeout=_TIMEOUT).cluster_id or "")

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each existing topic, including internal ones. Raises `ClusterError` if the
        cluster cannot be asked.
        """
        with self._translated_errors("cannot list the topics"):
            listed = self._admin.list_topics(timeout=_TIMEOUT).topics
        return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}

    def is_empty(self, topic: str, partition: int) -> bool:
        """Return whether no record was ever written to a partition, that is, whether its high watermark is 0. Records
        of open transactions count. Raises `ClusterError` if the cluster cannot be asked.
        """
        place = self._kafka.TopicPartition(topic, partition)
        # not from the consumer: with read_committed it gets the last stable offset instead of the high watermark
        with self._translated_errors(f"cannot ask for the offsets of {topic}-{partition}"):
            asked = self._admin.list_offsets(
                {place: self._admin_module.OffsetSpec.latest()},
                isolation_level=self._kafka.IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT,
            )  # fmt: skip
            return bool(asked[place].result(_TIMEOUT).offset == 0)

    def create(self, topic: str, partitions: int, replication: int, configs: Mapping[str, str]) -> None:
        """Create a topic and wait until all its partitions have a leader.

        `replication` is the replication factor, -1 for the cluster's default. Raises `ClusterError` if the topic cannot
        be created, for example because it exists, or if a partition has no leader 30 seconds later.
        """
        new = self._admin_module.NewTopic(topic, partitions, replication, config=dict(configs))
        with self._translated_errors(f"cannot create {topic} with {_words(configs)}"):
            self._admin.create_topics([new], operation_timeout=_TIMEOUT)[topic].result(_TIMEOUT)
        until = time.monotonic() + _TIMEOUT
        while len(self._partitions(topic)) < partitions:
            if time.monotonic() > until:
                raise _cluster_error(self.bootstrap, f"{topic} was created, but has no leaders yet")
            time.sleep(0.1)

    def _partitions(self, topic: str) -> Sequence[int]:
        with self._translated_errors(f"cannot ask for {topic}"):
            listed = self._admin.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        return [number for number, each in listed.partitions.items() if each.leader >= 0]

    # -- progress ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Abort open transactions of an earlier process with this identity, and fence it: from now on it cannot
        write. Raises `ClusterError` if that fails.
        """
        with self._translated_errors("cannot begin to write"):
            self._producer.init_transactions(_TIMEOUT * 2)
        self._is_ready = True

    def progress(self) -> dict[Key, int]:
        """Return the next source offset by (target topic, partition), from all committed records of the progress topic;
        empty if it has none. Calls `check` while waiting.

        Call `begin` first: it aborts transactions that an earlier process left open there. Raises `ClusterError` if no
        record arrives for 60 seconds before the end of the topic. Raises `RecoveryRefused` if a record of another
        program is in the topic.
        """
        progress: dict[Key, int] = {}
        waiting = set(self._partitions(self.progress_topic))
        place = self._kafka.TopicPartition
        with self._translated_errors("cannot ask how far the replay has come"):
            self._consumer.assign([place(self.progress_topic, number, 0) for number in waiting])
            until = time.monotonic() + _PROGRESS_SECONDS
            while waiting:
                for message in self._consumer.consume(1000, CHECKED_SECONDS):
                    error = message.error()
                    if error is None:
                        key, next_offset = _read_progress(self.progress_topic, message)
                        progress[key] = next_offset
                        until = time.monotonic() + _PROGRESS_SECONDS
                    elif error.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 - public in librdkafka
                        waiting.discard(message.partition())
                self._check()
                if time.monotonic() > until:
                    raise _cluster_error(self.bootstrap, f"{self.progress_topic} cannot be read to its end")
            self._consumer.unassign()
        return progress

    def note(self, starts: Mapping[Key, int]) -> None:
        """Commit the start offset of each partition in the source as its progress, before records are written to it.
        Does nothing if `starts` is empty. Raises `AbortedError` if the transaction was aborted, `ClusterError` if it
        failed otherwise.
        """
        if starts:
            with self._transaction():
                self._producer.begin_transaction()
                self._commit([(topic, number, offset) for (topic, number), offset in starts.items()])

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, topic: str, partition: int, records: Sequence[Record]) -> Written:
        """Write records to a partition in a new transaction, and wait until all are delivered. Return a `Written` with
        their offsets in the target; the records become visible when its `commit` is called. A negative timestamp is
        sent as 0, for which librdkafka uses the current time.

        If not all records are delivered in order within about two minutes, the transaction is aborted and
        `ClusterError` is raised. `AbortedError` is raised if the transaction was aborted and can be repeated.
        """
        with self._transaction():
            self._producer.begin_transaction()
            offsets: list[int] = []
            failed: list[Any] = []

            def delivered(error: Any, message: Any) -> None:
                if error is None:
                    offsets.append(message.offset())
                else:
                    failed.append(error)

            for number, record in enumerate(records):
                self._produce(topic, partition, record, delivered)
                if number % _POLLED_EACH == 0:
                    self._producer.poll(0)
            left = self._flushed()
            # a producer of transactions reports one partition's records in their order
            if left or failed or len(offsets) != len(records) or sorted(set(offsets)) != offsets:
                what = failed[0].str() if failed else "not all records were taken in time"
                where = records[min(len(offsets), len(records) - 1)].offset
                self._producer.abort_transaction(_TIMEOUT)
                raise _cluster_error(
                    self.bootstrap, f"cannot write {topic}-{partition} from source offset {where} on: {what}"
                )
        return Written(self, topic, partition, offsets)

    def _flushed(self) -> int:
        """Wait up to two minutes until all records are delivered; return the number that were not delivered in time.

        Waits in short intervals and calls `check` between them: an interrupt while librdkafka waits would surface as
        its `SystemError`.
        """
        until = time.monotonic() + _FLUSH_SECONDS
        while (left := int(self._producer.flush(CHECKED_SECONDS))) and time.monotonic() < until:
            self._check()
        return left

    def _produce(self, topic: str, partition: int, record: Record, delivered: Callable[[Any, Any], None]) -> None:
        headers = [(header.key, header.value) for header in record.headers]
        while True:
            try:
                self._producer.produce(topic, record.value, record.key, partition, on_delivery=delivered,
                                       timestamp=max(record.timestamp, 0), headers=headers)  # fmt: skip
            except BufferError:
                self._check()
                self._producer.poll(0.1)
            else:
                return

    def _commit(self, progress: Sequence[tuple[str, int, int]]) -> None:
        with self._transaction():
            failed: list[Any] = []
            for topic, number, next_offset in progress:
                key = json.dumps({"topic": topic, "partition": number})
                while True:
                    try:
                        self._producer.produce(
                            self.progress_topic, json.dumps({"next_offset": next_offset}), key, 0,
                            on_delivery=lambda error, _: failed.append(error) if error is not None else None,
                        )  # fmt: skip
                    except BufferError:
                        self._producer.poll(0.1)
                    else:
                        break
            if self._flushed() or failed:
                what = failed[0].str() if failed else "it was not taken in time"
                self._producer.abort_transaction(_TIMEOUT)
                raise _cluster_error(self.bootstrap, f"cannot write to {self.progress_topic}: {what}")
            while True:
                try:
                    self._producer.commit_transaction(_TIMEOUT)
                except self._kafka.KafkaException as error:
                    if error.args[0].retriable():
                        continue
                    raise
                return

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            yield
        except self._kafka.KafkaException as error:
            if error.args[0].txn_requires_abort():
                with self._translated_errors("cannot abort a transaction"):
                    self._producer.abort_transaction(_TIMEOUT)
                raise AbortedError(error.args[0].str()) from None
            raise self._error("cannot write", error) from None

    def abort(self) -> None:
        """Discard queued records and abort the open transaction, if any. Errors are ignored: the cluster aborts the
        transaction itself after a minute. Does nothing before `begin`.
        """
        if self._is_ready:
            try:
                self._producer.purge()
                self._producer.abort_transaction(_TIMEOUT)
            except self._kafka.KafkaException:
                pass  # there was none; or the cluster aborts it after a minute

    # -- groups ------------------------------------------------------------------------------------------------------

    def group_offsets(self, group: str, wanted: Sequence[Key]) -> dict[Key, int]:
        """Return the offsets that a group of the target has committed for the partitions in `wanted`; partitions
        without a commit are omitted. Raises `ClusterError` if the cluster cannot be asked.
        """
        asked = self._kafka.ConsumerGroupTopicPartitions(group, [self._kafka.TopicPartition(*key) for key in wanted])
        with self._translated_errors(f"cannot ask for the offsets of group {group}"):
            answer = self._admin.list_consumer_group_offsets([asked], request_timeout=_TIMEOUT)[group].result(_TIMEOUT)
        return {(each.topic, each.partition): each.offset for each in answer.topic_partitions if each.offset >= 0}

    def set_group_offsets(self, group: str, moved: Sequence[Moved]) -> None:
        """Commit the target offsets and metadata in `moved` for a group, which must not have members. Raises
        `ClusterError` if the cluster refuses the request or the offset of a partition.
        """
        # no note rather than an empty one, which would become a zero byte
        offsets = [
            self._kafka.TopicPartition(each.topic, each.partition, each.offset, *filter(None, [each.metadata]))
            for each in moved
        ]
        asked = self._kafka.ConsumerGroupTopicPartitions(group, offsets)
        with self._translated_errors(f"cannot set the offsets of group {group}"):
            answer = self._admin.alter_consumer_group_offsets([asked], request_timeout=_TIMEOUT)[group].result(_TIMEOUT)
        for each in answer.topic_partitions:
            if each.error is not None:
                what = f"cannot set the offset of group {group} for {each.topic}-{each.partition}: {each.error.str()}"
                raise _cluster_error(self.bootstrap, what)

    def __enter__(self) -> Target:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        self._consumer.close()


class Written:
    """Records in an open transaction; `offsets` are their offsets in the target."""

    def __init__(self, target: Target, topic: str, partition: int, offsets: list[int]) -> None:
        self._target = target
        self._place = topic, partition
        self.offsets = offsets

    def commit(self, next_offset: int) -> None:
        """Commit the records together with the next source offset. Raises `AbortedError` if the transaction was
        aborted, `ClusterError` if the commit failed otherwise.
        """
        self._target._commit([(*self._place, next_offset)])  # noqa: SLF001 - a part of it


def _words(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in configs.items()) or "the cluster's own settings"
