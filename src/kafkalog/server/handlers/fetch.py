"""Fetch: ranges of log files, at once or when there is enough data (`KafkaApis`, `DelayedFetch`).

An error concerns a single partition. A wait is a promise, polled when a log has changed, and holds no thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from copy import copy

from msgspec import Struct

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.log.walk.sliced import Sliced
from kafkalog.server.answers import Answer, Change, Later, Polled
from kafkalog.server.catalog import Served
from kafkalog.server.committed import Committed
from kafkalog.server.connection import Connection
from kafkalog.server.error_codes import Code
from kafkalog.server.files import FileRange, NoneLeftError
from kafkalog.server.handlers.leader_epochs import absent_code, epoch_error
from kafkalog.server.handlers.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Asked,
    FetchSession,
    Key,
    SessionError,
    Sessions,
    asked_of,
)
from kafkalog.server.headers import DamagedError
from kafkalog.server.memory import Budget, Held
from kafkalog.server.served_log import Read, ServedLog, epoch_end
from kafkalog.server.walking import TooFarError, eager
from kafkalog.server.wire import Fields, Request

__all__ = ["FIRST_WITH_IDS", "FetchHandler"]

_NOBODY = -1
_NOWHERE = -1, -1
_READ_COMMITTED = 1
FIRST_WITH_IDS = 13
_MOST_BYTES = 55 << 20
"""Limit of one response, as a broker's `fetch.max.bytes`."""
_LONGEST_WAIT_MS = 60_000
_MANY = 1100
"""With more partitions than this a fetch is answered in another thread. A small request may concern this many through a
session.
"""
_MOST_WAITING = 100_000
"""Limit for partitions of all waiting fetches. Beyond it, fetches are answered at once with what there is."""
_NOTHING = b""
Computed = Callable[[Request, Connection, Callable[[], Answer]], Later]


class _Found(Struct, kw_only=True):
    """Result of a fetch for one partition."""

    code: Code = Code.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    range: FileRange | None = None
    aborted: list[Fields] | None = None
    diverging: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return 0 if self.range is None else self.range.size

    def fields(self, partition: int) -> Fields:
        fields: Fields = {
            "partition_index": partition, "error_code": self.code, "high_watermark": self.high_watermark,
            "last_stable_offset": self.last_stable_offset, "log_start_offset": self.log_start,
            "aborted_transactions": self.aborted, "records": _NOTHING if self.range is None else self.range,
        }  # fmt: skip
        if self.diverging is not None:
            fields["diverging_epoch"] = {"epoch": self.diverging[0], "end_offset": self.diverging[1]}
        return fields


class FetchHandler:
    """Answers `Fetch` requests for the topics in `catalog`. Handlers made by `of` share sessions and limits.

    `walk` runs a search of a log in a worker thread, and announces a change of logs when it ends. `computed` runs a
    long computation in another thread and returns a promise of its result.
    """

    def __init__(self, catalog: Served, walk: Callable[[ServedLog, Sliced[object]], None], computed: Computed) -> None:
        self._catalog = catalog
        self._walk = walk
        self._computed = computed
        self.sessions = Sessions()
        self._waiting = Budget(_MOST_WAITING)

    def of(self, catalog: Served) -> FetchHandler:
        """Return a handler for a part of the catalog."""
        fetch_handler = copy(self)
        fetch_handler._catalog = catalog  # noqa: SLF001 - its own
        return fetch_handler

    def fetch(self, request: Request, connection: Connection) -> Answer:
        """Answer `Fetch`: return the response, or a promise of it. The promise waits while there are fewer bytes than
        `min_bytes` (at most `max_bytes` or 55 MiB), for up to `max_wait_ms` (at most a minute). If fetches of too many
        partitions wait already, the response has only the data that exists now. Opens, updates or closes the client's
        fetch session.

        A fetch of more than 1100 partitions is answered by another thread, unless it already runs in one; raises
        `CrowdedError` if too many requests wait for that thread. If it must wait, it waits for the whole time. An error
        that concerns one partition is in the response for that partition, and ends the wait of a smaller fetch. If the
        session is invalid, the whole response is an error.
        """
        body = request.body
        number, epoch = body.get("session_id", NO_SESSION), body.get("session_epoch", FINAL_EPOCH)
        uses_ids = request.version >= FIRST_WITH_IDS
        session: FetchSession | None = None
        asked: OrderedDict[Key, Asked] = OrderedDict()
        incremental = epoch not in (INITIAL_EPOCH, FINAL_EPOCH)
        try:
            if incremental:
                session = self.sessions.resume(number, epoch, body, uses_ids=uses_ids)
            else:
                if number != NO_SESSION:
                    self.sessions.close(number)
                asked.update(asked_of(body["topics"]))
                if epoch == INITIAL_EPOCH:
                    session = self.sessions.open(asked, uses_ids=uses_ids)
        except SessionError as error:
            return {"error_code": error.code, "session_id": NO_SESSION, "responses": []}
        work = _Work(body, asked, session, uses_ids, incremental)
        if work.count <= _MANY:
            return self._answer(work)
        bare = request.bare()
        if request.pace is not None:
            return self._at_length(bare, work, connection)
        return self._computed(bare, connection, lambda: self._at_length(bare, work, connection))

    def _at_length(self, request: Request, work: _Work, connection: Connection) -> Answer:
        """Answer a fetch of many partitions. Return the response if there are enough bytes, a partition has an error or
        diverges, or the fetch has no wait time; otherwise return a promise of it.

        During the wait nothing is read; when it is over, a worker reads the partitions once more. If too many
        partitions of other fetches wait already, the response has only the data that exists now.
        """
        found, total, at_once = self._read_all(work)
        held = None
        if work.wait > 0 and not at_once and total < work.least:
            held = self._waiting.take(work.count)
        if held is None:
            return self._response(work, found)

        def at_last() -> Fields:
            try:
                return self._response(work, self._read_all(work)[0])
            finally:
                held.release()

        def poll(is_over: bool) -> Polled:
            if not is_over:
                return None
            computed = self._computed(request, connection, at_last)
            give_up = computed.cancel

            def cancel() -> None:
                give_up()
                held.release()

            computed.cancel = cancel
            return computed

        return Later(poll, work.wait, Change(0), held.release)

    def _answer(self, work: _Work) -> Answer:
        def poll(is_over: bool) -> Fields | None:
            found, total, at_once = self._read_all(work)
            if is_over or at_once or total >= work.least or not found:
                return self._response(work, found)
            return None

        first = poll(work.wait <= 0)
        if first is not None:
            return first
        held = self._waiting.take(work.count)
        if held is None:
            return self._response(work, self._read_all(work)[0])
        return Later(_ending(poll, held), work.wait, Change.LOGS, held.release)

    def _read_all(self, work: _Work) -> tuple[list[tuple[Key, Asked, _Found]], int, bool]:
        total, at_once, found = 0, False, []
        for key, asked in work.asked.items() if work.session is None else self.sessions.partitions(work.session):
            left = work.most if work.most < 0 else max(0, work.most - total)
            one = self._read(key, asked, work, left, at_least_one=total == 0)
            total += one.size
            at_once |= one.code is not Code.NONE or one.diverging is not None
            found.append((key, asked, one))
        return found, total, at_once

    def _read(self, key: Key, asked: Asked, work: _Work, left: int, *, at_least_one: bool) -> _Found:
        name = self._catalog.names.get(key[0]) if work.uses_ids else key[0]
        if name is None:
            return _Found(code=Code.UNKNOWN_TOPIC_ID, aborted=[])
        log = self._catalog.log(name, key[1])
        if log is None:
            return _Found(code=absent_code(self._catalog, name), aborted=[])
        code = epoch_error(log, asked.leader_epoch)
        if code is not Code.NONE:
            return _Found(code=code)
        if work.is_replica:  # nobody follows this one
            return _Found(code=Code.NOT_LEADER_OR_FOLLOWER if asked.leader_epoch < 0 else Code.UNKNOWN_LEADER_EPOCH)
        try:
            return self._of_log(log, asked, work.committed, left, at_least_one)
        except DamagedError:
            return _Found(code=Code.CORRUPT_MESSAGE)
        except (KafkaLogError, OSError):
            return _Found(code=Code.KAFKA_STORAGE_ERROR)

    def _of_log(self, log: ServedLog, asked: Asked, committed: bool, left: int, at_least_one: bool) -> _Found:
        bounds = log.bounds()
        upper = stable = bounds.end
        transactions = None
        if committed:
            transactions = log.committed
            if transactions is None:
                self._walk(log, log.finding_committed())
                upper = asked.offset  # nothing yet; a lower stable offset would tell a client that it has read all
            else:
                upper = stable = min(transactions.last_stable_offset, bounds.end)
                log.tell_of_open(transactions, asked.offset)
        elif (known := log.committed) is not None:  # told to all, as far as it is known
            stable = min(known.last_stable_offset, bounds.end)
        found = _Found(code=Code.NONE, high_watermark=bounds.end, last_stable_offset=stable, log_start=bounds.start)
        found.diverging = _diverging(log, asked, bounds.end)
        if found.diverging == _NOWHERE:
            return _Found(code=Code.OFFSET_OUT_OF_RANGE)
        if found.diverging is not None:
            return found
        if not bounds.start <= asked.offset <= bounds.end:
            return _Found(code=Code.OFFSET_OUT_OF_RANGE)
        if transactions is not None and asked.offset >= upper and transactions.ended_by is not None:
            return _Found(code=Code.CORRUPT_MESSAGE)
        most = min(asked.max_bytes, left)
        if asked.offset < upper and most < 0:
            return _Found(code=Code.UNKNOWN_SERVER_ERROR)
        found.aborted = [] if committed else None
        if most <= 0 and not at_least_one:
            return found
        read = self._range(log, asked.offset, most, upper, at_least_one, transactions)
        if read is None:
            return found
        found.range = read.range
        if read.range is None and at_least_one:  # what is left is damaged and left out: this is the end
            found.last_stable_offset = asked.offset
            if not committed:
                found.high_watermark = asked.offset
        if transactions is not None and read.range is not None:
            found.aborted = [
                {"producer_id": aborted_transaction.producer_id, "first_offset": aborted_transaction.first_offset}
                for aborted_transaction in transactions.between(asked.offset, read.next_offset)
            ]
        return found

    def _range(
        self, log: ServedLog, offset: int, most: int, upper: int, at_least_one: bool, committed: Committed | None
    ) -> Read | None:
        """Return up to `most` bytes of whole batches from `offset` on, below the offset `upper`, as a range of a log
        file. If the first batch is larger, it is returned with `at_least_one`; otherwise the result's `range` is None,
        as it is if all that is left below `upper` is damaged and left out.

        Return None if `offset` is not below `upper`, or if too many logs are open. Return None also if the batch must
        be searched for: a search is then started in a worker, and a later call finds the batch. Raises `DamagedError`
        if there is no batch at the position, `StorageError` if the log cannot be read.
        """
        if offset >= upper:
            return None
        try:
            return log.read(
                offset, max(0, most), upper, at_least_one=at_least_one, patience=eager(), committed=committed
            )
        except TooFarError:
            self._walk(log, log.reading(offset, max(0, most), upper, at_least_one=at_least_one, committed=committed))
        except NoneLeftError:
            pass
        return None

    def _response(self, work: _Work, results: list[tuple[Key, Asked, _Found]]) -> Fields:
        session = work.session
        topics: dict[str, list[Fields]] = {}
        for key, asked, one in results:
            news = one.size > 0 or one.code is not Code.NONE or one.diverging is not None
            told = (one.high_watermark, one.log_start) == (asked.high_watermark, asked.log_start)
            asked.high_watermark, asked.log_start = one.high_watermark, one.log_start
            if session is not None and one.size > 0:
                self.sessions.served(session, key)
            if not work.incremental or news or not told:
                topics.setdefault(key[0], []).append(one.fields(key[1]))
        name = "topic_id" if work.uses_ids else "topic"
        responses = [{name: topic, "partitions": partitions} for topic, partitions in topics.items()]
        number = NO_SESSION if session is None else session.id
        return {"error_code": Code.NONE, "session_id": number, "responses": responses}


def _ending(poll: Callable[[bool], Fields | None], held: Held) -> Callable[[bool], Fields | None]:
    """Return a callback that returns the result of `poll`, and releases `held` if that is a response."""

    def polled(is_over: bool) -> Fields | None:
        response = poll(is_over)
        if response is not None:
            held.release()
        return response

    return polled


def _diverging(log: ServedLog, asked: Asked, end: int) -> tuple[int, int] | None:
    """Return the epoch and end offset to which the client should truncate its log: `epoch_end` for the epoch that it
    fetched last. `end` is the log end offset. Return `_NOWHERE` (-1, -1) if that epoch is newer than all of the log.

    Return None if `epoch_end` has that same epoch and an offset that is not below the fetch offset: nothing is to be
    truncated. Return None also if the client sent no epoch or the log has no epochs. Raises `StorageError` if the log's
    bounds must be read and cannot be.
    """
    if asked.last_fetched_epoch < 0 or not log.epochs:  # where a damaged disk lists none, a client is believed
        return None
    found = epoch_end(log.epochs, asked.last_fetched_epoch, end)
    is_more = found[0] < asked.last_fetched_epoch or found[1] < asked.offset
    return found if found == _NOWHERE or is_more else None


def _is_replica(body: Fields) -> bool:
    """Return whether the request is from a broker. No broker is a replica here."""
    state = body.get("replica_state")
    return bool(body.get("replica_id", _NOBODY) >= 0 or (state is not None and state["replica_id"] >= 0))


class _Work:
    """The partitions and limits of one fetch. With a session, the partitions stay in the session and are not copied
    here.
    """

    __slots__ = ("asked", "committed", "incremental", "is_replica", "least", "most", "session", "uses_ids", "wait")

    def __init__(self, body: Fields, asked: OrderedDict[Key, Asked], session: FetchSession | None, uses_ids: bool,
                 incremental: bool) -> None:  # fmt: skip
        self.asked = asked
        self.session = session
        self.uses_ids = uses_ids
        self.incremental = incremental
        self.is_replica = _is_replica(body)
        self.committed = body["isolation_level"] == _READ_COMMITTED
        self.most = min(body["max_bytes"], _MOST_BYTES)
        self.least = min(body["min_bytes"], self.most)
        self.wait = min(body["max_wait_ms"], _LONGEST_WAIT_MS)

    @property
    def count(self) -> int:
        """Number of partitions."""
        return len(self.asked if self.session is None else self.session.partitions)
