"""Writing of records to the logs of a directory: encode, partition, batch, append (`KafkaProducer`, `Sender`).

The older Scala `Producer` (`ProducerSendThread`) had a single queue. A record is in its log when its future has a
result. When it is durable depends on the settings of the log, or on `flush`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from numbers import Integral
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from kafkalog.codec.common.arguments import checked, shown
from kafkalog.codec.common.errors import KafkaLogError, UsageError
from kafkalog.codec.encode.record_checks import check_record, is_bytes
from kafkalog.codec.model import NO_TIMESTAMP, Codec, Record, TimestampType
from kafkalog.codec.rules.codec_names import as_codec
from kafkalog.log.disk.files import PathLike
from kafkalog.log.disk.process import OwnProcess
from kafkalog.log.writing.choosing_partitions import Partitioner, StickyPartitions, by_key, random_number
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.incoming import NewRecord
from kafkalog.log.writing.open_logs import OpenLogs, now_ms
from kafkalog.producer.accumulator import Accumulator
from kafkalog.producer.batch import OpenBatch, ReadyBatch, RecordMetadata, Waiting
from kafkalog.producer.config import ProducerConfig
from kafkalog.producer.hooks import CallbackHandler, EventHandler, Outgoing
from kafkalog.producer.identity import Identity
from kafkalog.producer.room import QueueFullError, Room

__all__ = ["Encoder", "OnDelivery", "Producer", "TransactionAbortedError"]

Encoder = Callable[[Any], bytes | None]
"""Converts a key or value of the caller to the bytes of a record."""
OnDelivery = Callable[[RecordMetadata | None, BaseException | None], object]
"""Called with where a record was written, or with the error."""


_MAGIC = 2
"""the first magic with producer fields in batches"""


def _check(topic: Any, partition: Any, callback: Any) -> None:
    """Raise `UsageError` if an argument of `send` has a wrong type: `topic` must be a string, `partition` an integer or
    None, `callback` callable or None. Other arguments are not checked here, since `send` is called for each record.
    """
    if not isinstance(topic, str):
        raise UsageError(f"topic is {shown(topic)}, not str")
    if not isinstance(partition, Integral | None):
        raise UsageError(f"partition is {shown(partition)}, not int")
    if callback is not None and not callable(callback):
        raise UsageError(f"callback is {shown(callback)}, not a function")


class TransactionAbortedError(KafkaLogError):
    """A record was not written because its transaction was aborted."""


@checked("send")
class Producer:
    """Writes records to many partitions of a log directory. Use as a context manager, or call `close`. Thread-safe.

    The directory is locked as by a broker. If a record cannot be written, its future has the error. `flush` and `close`
    also raise the first error that no call has raised yet, so that no error is lost. Creating a producer, and methods
    that open a log or write to one, raise `FormatError` for a damaged log, `RecoveryRefused` if a recovery of the
    directory has not ended, and `StorageError` for I/O errors.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        config: ProducerConfig | None = None,
        *,
        num_partitions: int | Mapping[str, int] | None = None,
        log_config: LogConfig | None = None,
        topic_ids: Mapping[str, str] | None = None,
        partitioner: Partitioner = "murmur2",
        key_encoder: Encoder | None = None,
        value_encoder: Encoder | None = None,
        producer_id: int | None = None,
        producer_epoch: int = 0,
        transactional: bool = False,
        event_handler: EventHandler | None = None,
        callback_handler: CallbackHandler | None = None,
        clock: Callable[[], int] | None = None,
        random: Callable[[], int] = random_number,
    ) -> None:
        """Lock the log directory `path`, as a broker does. It is created if its parent exists.

        For a broker with several directories pass all of them, or their parent: a new partition is created in the
        directory with the fewest partitions. `num_partitions` is the number of partitions of a topic, for all topics or
        by topic; by default the existing ones, or one for a new topic. `topic_ids` are ids for new topics by name, by
        default random.

        `partitioner` is `murmur2` (records without a key stick to a partition until a batch is full), `hash` (of the
        Scala producer; text is hashed before it is encoded), `sticky` (ignores keys), or a function of key and number
        of partitions. `key_encoder` and `value_encoder` convert the arguments of `send` to bytes.

        With a `producer_id` and `producer_epoch` the producer is idempotent. A transactional one aborts transactions
        left open by an earlier producer with its id, in all partitions of the directory. `event_handler` writes batches
        instead of the producer; `callback_handler` has hooks for each record. `clock` returns ms since 1970, `random`
        numbers from 0 to 2^31 - 1.

        With `producer_type` `async` a background thread is started. Raises `UsageError` for impossible arguments, or if
        another process or another producer of this process has the lock. Raises `RecoveryRefused` if a recovery of a
        directory has not ended. Raises `StorageError` for I/O. Raises `FormatError` if a log that is opened is damaged,
        or if one of several directories has a malformed `meta.properties`.
        """
        self.config = config or ProducerConfig()
        self._log_config = log_config or LogConfig()
        batch_size = min(self.config.batch_size, _largest_batch(self._log_config, self.config.compression_type))
        self._by_key = by_key(partitioner)
        self._key_encoder, self._value_encoder = key_encoder, value_encoder
        self._identity = Identity(producer_id, producer_epoch, transactional)
        if producer_id is not None and self._log_config.magic < _MAGIC:
            raise UsageError("message_format_version must be 0.11.0 or more for an idempotent producer")
        self._event_handler = event_handler
        self._hooks = callback_handler or CallbackHandler()
        self._clock = clock or now_ms
        sticky = StickyPartitions(batch_size, random, by_time=partitioner == "hash")
        self._accumulator = Accumulator(replace(self.config, batch_size=batch_size), sticky)
        self._changed = threading.Condition(threading.RLock())
        self._room = Room(self.config, self._changed)
        self._writing = threading.RLock()
        self._writer: int | None = None
        """the thread that is writing batches now"""
        self._idle = False
        """whether the thread waits for a first record"""
        self._error: BaseException | None = None
        self._closing = False
        self._counts: dict[str, int] = {}
        self._logs = OpenLogs(path, self._log_config, num_partitions, topic_ids, self._clock)
        self._process = OwnProcess(f"a producer of {self._logs.directories}")
        try:
            self._abort_unfinished()
        except BaseException:
            self._logs.close()
            raise
        self._thread: threading.Thread | None = None
        if self.config.producer_type == "async":
            self._thread = threading.Thread(target=self._run, name="kafkalog-producer", daemon=True)
            self._thread.start()

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        callback: OnDelivery | None = None,
    ) -> Future[RecordMetadata]:
        """Send a record. Return a future with its `RecordMetadata` (partition, offset, timestamp), or its error; it is
        cancelled if the hook `before_enqueue` drops the record.

        `key` and `value` are passed to the encoders, or are bytes or None. `timestamp` is in ms since 1970, by default
        now. With `producer_type` `sync` the record is in its log when this returns, and its error is raised. Raises
        `QueueFullError` if too many records or bytes are waiting. Raises `UsageError` for an invalid argument, after
        `close`, or if a transactional producer has no open transaction.
        """
        outgoing = Outgoing(topic, self._encoded(value, key, timestamp, headers), partition)
        future = self._enqueue(outgoing, key, callback)
        self._after(future)
        return future

    def send_all(self, records: Iterable[Outgoing]) -> list[Future[RecordMetadata]]:
        """Send several records whose keys and values are already bytes. Return one future for each, in order; the
        future of a record that the hook `before_enqueue` drops is cancelled.

        With `producer_type` `sync`, the records of a partition are written as one batch if they fit. All are tried, and
        then the first error is raised. With `async` errors are in the futures. Raises `UsageError` and `QueueFullError`
        as `send` does; records before the refused one stay queued.
        """
        futures = []
        for record in records:
            if not isinstance(record, Outgoing) or not isinstance(record.record, NewRecord):
                raise UsageError(f"{type(record).__name__} is not Outgoing, with a topic and a NewRecord")
            futures.append(self._enqueue(record, record.record.key, None))
        self._after(*futures)
        return futures

    def _encoded(
        self, value: Any, key: Any, timestamp: int | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> NewRecord:
        key_bytes = key if self._key_encoder is None or key is None else self._key_encoder(key)
        value_bytes = value if self._value_encoder is None else self._value_encoder(value)
        if isinstance(key_bytes, bytearray | memoryview):
            key_bytes = bytes(key_bytes)
        if isinstance(value_bytes, bytearray | memoryview):
            value_bytes = bytes(value_bytes)
        for part, encoder in ((key_bytes, self._key_encoder), (value_bytes, self._value_encoder)):
            if not is_bytes(part):
                hint = "; use an encoder for other types" if encoder is None else ", and so is the result of an encoder"
                raise UsageError(f"keys and values are bytes or None, not {type(part).__name__}{hint}")
        return NewRecord(value_bytes, key_bytes, timestamp, headers)

    def _enqueue(self, outgoing: Outgoing, key: Any, callback: OnDelivery | None) -> Future[RecordMetadata]:
        """Pass a record through the hooks, choose its partition, and add it to the batch of that partition. Return its
        future. If the hook `before_enqueue` returns None, the record is dropped and the future is cancelled. `key` is
        the key before encoding, for the partitioner. If there is no room and no background thread, waiting batches are
        written first.

        Raises `UsageError` for an invalid record or partition, a closed producer, in a forked child, or for a
        transactional producer without an open transaction. Raises `QueueFullError` if there is no room in time, and for
        the first record of a topic the errors of `Log.open`.
        """
        self._process.require()
        to_send = self._hooks.before_enqueue(outgoing)
        if to_send is None:
            nothing: Future[RecordMetadata] = Future()
            nothing.cancel()
            return nothing
        if not isinstance(to_send, Outgoing) or not isinstance(to_send.record, NewRecord):
            raise UsageError(f"before_enqueue returned {type(to_send).__name__}, not Outgoing with a NewRecord")
        topic, record = to_send.topic, to_send.record
        _check(topic, to_send.partition, callback)
        moment = self._clock() if record.timestamp is None else record.timestamp
        full_record = Record(0, moment, TimestampType.CREATE_TIME, record.key, record.value, record.headers)  # type: ignore[arg-type]
        check_record(full_record)
        if moment < 0:
            raise UsageError(f"timestamp {moment} is negative")
        waiting = Waiting(full_record, callback)
        partitions = self._partitions(topic)
        partition = to_send.partition
        if partition is None:
            same_key = record.key is outgoing.record.key
            partition = self._by_key(key if same_key else record.key, record.key, partitions)
        elif not 0 <= partition < partitions:
            raise UsageError(f"topic {topic} has {partitions} partitions; there is no partition {partition}")
        try:
            try:
                self._put(topic, partition, partitions, waiting)
            except QueueFullError:
                if self._thread is not None or self._is_writing():
                    raise
                self._deliver(everything=True)  # nobody else makes room
                self._put(topic, partition, partitions, waiting)
        except QueueFullError:
            self._hooks.after_enqueue(to_send, False)
            raise
        self._hooks.after_enqueue(to_send, True)
        return waiting.future

    def _put(self, topic: str, partition: int | None, partitions: int, waiting: Waiting) -> None:
        """Reserve room for a record and add it to the batch of its partition (None: the sticky partitioner chooses).
        `partitions` is the topic's number of partitions. Wakes the background thread if a batch became ready or the
        thread has nothing to wait for.

        With `async` it may wait for room, except in a callback; raises `QueueFullError` if there is none in time.
        Raises `UsageError` if the record is larger than `buffer_memory`, the producer is closed, or a transactional
        producer has no open transaction or is ending it. All but the size are checked again after waiting.
        """
        with self._changed:
            self._check_sending()
            self._room.take(waiting.upper_bound, may_wait=self._thread is not None and not self._is_writing())
            try:
                self._check_sending()  # much may have happened while the record waited for room
            except UsageError:
                self._room.give(waiting.upper_bound, 1)
                raise
            _, ready = self._accumulator.append(topic, partition, partitions, waiting, _monotonic_ms())
            if ready or self._idle:
                self._changed.notify_all()

    def _check_sending(self) -> None:
        self._check_open()
        self._identity.check_sending()

    def _is_writing(self) -> bool:
        """Return whether the caller is the thread that is writing batches."""
        return self._writer == threading.get_ident()

    def _partitions(self, topic: str) -> int:
        known = self._counts.get(topic)
        if known is None:
            with self._writing:
                with self._changed:
                    self._check_open()
                known = self._counts[topic] = self._logs.partitions(topic)
        return known

    def _after(self, *futures: Future[RecordMetadata]) -> None:
        """With `producer_type` `sync`, write all waiting batches, and then raise the error of the first of `futures`
        that failed; `flush` and `close` do not raise it again. With `async`, do nothing.
        """
        if self._thread is not None:
            return
        self._deliver(everything=True)
        for future in futures:
            error = None if not future.done() or future.cancelled() else future.exception()
            if error is not None:
                if self._error is error:
                    self._error = None
                raise error

    # -- writing -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closing and not self._is_work():
                    due = self._accumulator.due_ms()
                    self._idle = due is None
                    self._changed.wait(None if due is None else max(due - _monotonic_ms(), 1) / 1000)
                self._idle = False
                if self._closing:
                    return
            self._deliver(everything=False)

    def _is_work(self) -> bool:
        return self._room.wanted > 0 or self._accumulator.has_ready(_monotonic_ms())

    def _deliver(self, *, everything: bool) -> None:
        """Write the batches that are ready until none is left, and complete their futures. With `everything`, or once a
        sender waits for buffer space, batches that are not yet ready are written too. If a hook calls this while
        batches are being written, it does nothing, because the call in progress writes the new batch too.

        A failed batch does not stop the others: its error is in its futures and is raised by the next `flush` or
        `close`. An interruption such as `KeyboardInterrupt` is raised at once, and batches that were removed from the
        queues but not yet written fail with it.
        """
        with self._writing:
            if self._writer is not None:
                return
            self._writer = threading.get_ident()
            try:
                while True:
                    with self._changed:
                        everything = everything or self._room.wanted > 0
                        batches = self._accumulator.drain(_monotonic_ms(), everything=everything)
                    if not batches:
                        return
                    for number, batch in enumerate(batches):
                        try:
                            self._write(batch)
                        except BaseException as error:  # an interruption
                            for left in batches[number + 1 :]:
                                self._finish(left, -1, error)
                            raise
            finally:
                self._writer = None

    def _write(self, batch: OpenBatch) -> None:
        ready, first, failure = batch.ready(), -1, None
        try:
            self._hooks.before_sending(ready)
            handler = self._event_handler
            first = self._append(ready) if handler is None else handler(ready, self._append)
            if not isinstance(first, int):
                raise UsageError(
                    f"the event handler returned {type(first).__name__}, not the offset of the first record"
                )
        except BaseException as error:  # noqa: BLE001 - whatever it is, each record's future says it
            first, failure = -1, error
        self._finish(batch, first, failure)
        self._call_hook(self._hooks.after_sending, ready, failure)
        if failure is not None and not isinstance(failure, Exception):
            raise failure

    def _append(self, ready: ReadyBatch) -> int:
        log = self._logs.log(ready.topic, ready.partition)
        first = log.append(ready.records, compression=self.config.compression_type, producer=self._identity.state(log))
        if self._identity.transactional:
            self._identity.reached[ready.topic, ready.partition] = None
        return first

    def _finish(self, batch: OpenBatch, first: int, failure: BaseException | None) -> None:
        """Release the room of a batch that was written or failed, complete the futures of its records with their
        metadata, and call their callbacks. `first` is the offset of the batch's first record, -1 if none was written.
        Timestamps in the metadata are -1 unless the log keeps the producer's.

        With `failure` the futures and callbacks get this error, and the transaction is marked as failed. The next
        `flush` or `close` raises the error, or that of a callback, unless an earlier one is waiting.
        """
        with self._changed:
            self._room.give(sum(each.upper_bound for each in batch.waiting), len(batch.waiting))
            if failure is not None:
                self._error = self._error or failure
                self._identity.failed = self._identity.failed or failure
        config = self._log_config
        is_create_time = config.message_timestamp_type is TimestampType.CREATE_TIME and config.magic > 0
        for number, waiting in enumerate(batch.waiting):
            moment = waiting.record.timestamp if is_create_time else NO_TIMESTAMP
            offset = first + number if first >= 0 else first
            metadata = RecordMetadata(
                topic=batch.topic, partition=batch.partition, offset=offset, timestamp=moment
            )
            if failure is None:
                waiting.future.set_result(metadata)
            else:
                waiting.future.set_exception(failure)
            if waiting.callback is not None:
                self._call_hook(waiting.callback, metadata if failure is None else None, failure)

    def _call_hook(self, hook: Callable[..., object], *arguments: object) -> None:
        """Call `hook` with `arguments`. If it raises an `Exception`, no record fails. The next `flush`,
        `commit_transaction` or `close` raises this error. It is dropped if an earlier error is waiting, or if a
        transaction is aborted before.
        """
        try:
            hook(*arguments)
        except Exception as error:  # noqa: BLE001 - a function of the caller's may do anything
            with self._changed:
                self._error = self._error or error

    # -- flushing and transactions -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all records sent and flush the logs to disk. Raises the first error that no call has raised yet, and
        `UsageError` after `close`, in a forked child or in a callback.
        """
        with self._still():
            self._deliver(everything=True)
            self._call_hook(self._logs.flush)
        self._raise_error()

    def _abort_unfinished(self) -> None:
        """Write ABORT markers to all partitions with a transaction left open by an earlier producer with this id, and
        flush the logs (`KafkaProducer.initTransactions`). Does nothing if the producer is not transactional. Opens all
        logs of the directory: raises `FormatError` if one is damaged, `StorageError` for I/O. Raises `UsageError` if
        such a transaction has a later epoch of the producer.
        """
        identity = self._identity
        for topic, partition in list(self._logs.directories.there()) if identity.transactional else ():
            log = self._logs.log(topic, partition)
            if log.is_in_transaction(identity.producer_id):
                log.end_transaction(identity.producer_id, identity.producer_epoch, commit=False)
        if identity.transactional:
            self._logs.flush()

    def begin_transaction(self) -> None:
        """Begin a transaction, to which all further records belong. Raises `UsageError` if the producer is not
        transactional, if a transaction is open, after `close`, in a forked child or in a callback.
        """
        with self._still(), self._changed:
            self._identity.begin()

    def commit_transaction(self) -> None:
        """Write all records sent, flush them, then write a COMMIT marker to each partition of the transaction and flush
        again. If a crash comes between two markers, no coordinator remembers the commit, unlike with a broker: the next
        producer with this id aborts the partitions that are still open.

        Raises `UsageError` if a record of the transaction could not be written; it can then only be aborted. Raises
        `UsageError` also if no transaction is open, in a callback, in a forked child, or if the producer is closed.
        Raises `StorageError` for I/O errors. If a hook failed, its error is raised after the commit.
        """
        with self._still(), self._ending():
            self._deliver(everything=True)
            if self._identity.failed is not None:
                raise UsageError(
                    f"a record of the transaction was not written ({self._identity.failed}): abort it"
                ) from self._identity.failed
            self._logs.flush()
            self._end_transaction(commit=True)
        self._raise_error()

    def abort_transaction(self) -> None:
        """Discard records that were not written yet (their futures fail with `TransactionAbortedError`), and write an
        ABORT marker to each partition of the transaction; then flush the logs. Raises `UsageError` if no transaction is
        open, after `close`, in a forked child or in a callback; `StorageError` for I/O errors.
        """
        with self._still(), self._ending():
            self._abort()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Context manager for the end of a transaction; in its block `send` raises `UsageError`. Entering it raises
        `UsageError` if no transaction is open.
        """
        with self._changed:
            self._identity.begin_ending()
        try:
            yield
        finally:
            with self._changed:
                self._identity.is_ending = False

    def _abort(self) -> None:
        with self._changed:
            batches = self._accumulator.drain(_monotonic_ms(), everything=True)
        for batch in batches:
            self._finish(
                batch, -1, TransactionAbortedError("the transaction was aborted before the record was written")
            )
        self._error = None  # what could not be written was not wanted
        self._end_transaction(commit=False)

    def _end_transaction(self, *, commit: bool) -> None:
        identity = self._identity
        for topic, partition in list(identity.reached):
            log = self._logs.log(topic, partition)
            log.end_transaction(identity.producer_id, identity.producer_epoch, commit=commit)
            del identity.reached[topic, partition]
        self._logs.flush()
        with self._changed:
            identity.ended()

    # -- closing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Context in which no other thread writes batches. Entering it waits until the current writer has finished.
        Raises `UsageError` if the producer is closed, in a forked child, or in a callback, because its batch is still
        being written.
        """
        self._process.require()
        with self._writing:
            if self._writer is not None:
                raise UsageError("a callback of a producer cannot flush, close or end a transaction")
            with self._changed:
                self._check_open()
            yield

    def _check_open(self) -> None:
        if self._closing:
            raise UsageError(f"the producer of {self._logs.directories} is closed")

    def _raise_error(self) -> None:
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Write all records sent, close the logs, release the lock, and call the hook `close`. If a transaction is
        open, it is aborted and its unwritten records fail.

        Waits for the background thread. Raises the first error that no call has raised yet, after everything is closed;
        after an abort, earlier errors are not raised. Raises `UsageError` in a callback. A second call, or a call in a
        forked child, does nothing.
        """
        if not self._process.is_here:
            return
        with self._writing:
            if self._writer is not None:
                raise UsageError("a callback of a producer cannot flush, close or end a transaction")
            with self._changed:
                if self._closing:
                    return
                self._closing = True
                self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        try:
            if self._identity.in_transaction:
                self._abort()
            else:
                self._deliver(everything=True)
        finally:
            try:
                self._logs.close()
            finally:
                self._hooks.close()
        self._raise_error()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _largest_batch(config: LogConfig, compression: str) -> int:
    """Maximum size in bytes, before compression, of a batch of several records that the log accepts.

    With compression it is three quarters of the log's limit, because incompressible data grows, with snappy by a sixth
    and some bytes.
    """
    largest = min(config.max_message_bytes, config.segment_bytes)
    return largest if as_codec(compression) is Codec.NONE else largest * 3 // 4


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
