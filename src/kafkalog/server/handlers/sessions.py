"""Fetch sessions, which remember the partitions a client wants (KIP-227, `FetchSession`).

The number is limited. A new session may replace the least recently used one if that was idle long enough. Otherwise the
client gets none and repeats its partitions in each request.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any

from msgspec import Struct, field

from kafkalog.server.error_codes import Code
from kafkalog.server.wire import Fields

__all__ = [
    "FINAL_EPOCH", "INITIAL_EPOCH", "NO_SESSION", "Asked", "FetchSession", "Key", "SessionError", "Sessions",
    "asked_of",
]  # fmt: skip

NO_SESSION, INITIAL_EPOCH, FINAL_EPOCH = 0, 0, -1
_MOST_SESSIONS = 1000
_MOST_PARTITIONS = 100_000
"""Limit for all sessions together. A partition with a very long topic name counts as several."""
_NAME_CHARACTERS = 256
_EVICTED_AFTER_S = 120
_LAST_EPOCH = (1 << 31) - 1

Key = tuple[str, int]
"""Topic or topic id as in the request, and partition."""


class SessionError(Exception):
    """The session id or epoch in a request is not valid."""

    def __init__(self, code: Code) -> None:
        self.code = code
        super().__init__(code)


class Asked(Struct, kw_only=True):
    """A partition in a fetch: the offset, size and epochs that the client wants, and the bounds reported to it last."""

    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    high_watermark: int = -1
    log_start: int = -1

    @classmethod
    def of(cls, fields: Fields) -> Asked:
        """Return an `Asked` for a partition of a `Fetch` request. Epochs that the request's version does not have are
        -1. The bounds that the server reported last are -1 too, because nothing was reported yet.
        """
        return cls(
            offset=fields["fetch_offset"], max_bytes=fields["partition_max_bytes"],
            leader_epoch=fields.get("current_leader_epoch", -1),
            last_fetched_epoch=fields.get("last_fetched_epoch", -1),
        )  # fmt: skip


class FetchSession(Struct, kw_only=True):
    """The partitions that a client fetches repeatedly (KIP-227). `partitions` is in the order of the response."""

    id: int
    epoch: int
    uses_ids: bool
    partitions: OrderedDict[Key, Asked] = field(default_factory=OrderedDict)
    used: float = 0.0
    weight: int = 0
    """size of its contents, in partitions"""

    def update(self, body: Fields) -> None:
        """Apply an incremental `Fetch` request: add its new partitions at the end of the order, change those that the
        session has, and remove those that it forgets. Updates `weight`.
        """
        for key, asked in asked_of(body["topics"]):
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = asked
                self.weight += _weight(key)
            else:
                known.offset, known.max_bytes = asked.offset, asked.max_bytes
                known.leader_epoch, known.last_fetched_epoch = asked.leader_epoch, asked.last_fetched_epoch
        for topic in body.get("forgotten_topics_data", ()):
            for partition in topic["partitions"]:
                key = name_of(topic), partition
                if self.partitions.pop(key, None) is not None:
                    self.weight -= _weight(key)


class Sessions:
    """All fetch sessions. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._all: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def open(self, partitions: OrderedDict[Key, Asked], *, uses_ids: bool) -> FetchSession | None:
        """Open a fetch session with a random id for `partitions`, and return it; its next epoch is 1. `uses_ids` says
        whether requests name topics by id. If there are too many sessions or partitions, sessions that were not used
        for two minutes are removed, the oldest first. If there is still not enough room, return None; the fetch is then
        answered without a session.
        """
        with self._lock:
            now = time.monotonic()
            weight = sum(map(_weight, partitions))
            if weight > _MOST_PARTITIONS:
                return None
            held = sum(fetch_session.weight for fetch_session in self._all.values())
            while self._all and (len(self._all) >= _MOST_SESSIONS or held + weight > _MOST_PARTITIONS):
                oldest = next(iter(self._all.values()))
                if now - oldest.used < _EVICTED_AFTER_S:
                    return None
                held -= oldest.weight
                del self._all[oldest.id]
            number = 0
            while number in self._all or number == 0:
                number = secrets.randbelow(_LAST_EPOCH) + 1
            session = FetchSession(
                id=number, epoch=INITIAL_EPOCH + 1, uses_ids=uses_ids, partitions=partitions, used=now, weight=weight
            )
            self._all[number] = session
            return session

    def close(self, number: int) -> None:
        """Remove a session."""
        with self._lock:
            self._all.pop(number, None)

    def resume(self, number: int, epoch: int, body: Fields, *, uses_ids: bool) -> FetchSession:
        """Apply an incremental request to the session with id `number` and return the session, with the next epoch.

        Raises `SessionError`: FETCH_SESSION_ID_NOT_FOUND if there is no such session; INVALID_FETCH_SESSION_EPOCH if
        `epoch` is not the expected one or `uses_ids` has changed. A session that grows beyond the limit is removed,
        also with FETCH_SESSION_ID_NOT_FOUND, and the client must open a new one.
        """
        with self._lock:
            session = self._all.get(number)
            if session is None:
                raise SessionError(Code.FETCH_SESSION_ID_NOT_FOUND)
            if session.epoch != epoch:
                raise SessionError(Code.INVALID_FETCH_SESSION_EPOCH)
            if session.uses_ids != uses_ids:
                raise SessionError(Code.INVALID_FETCH_SESSION_EPOCH)
            session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
            session.used = time.monotonic()
            self._all.move_to_end(number)
            session.update(body)
            if session.weight > _MOST_PARTITIONS or (
                sum(each.weight for each in self._all.values()) > _MOST_PARTITIONS and len(self._all) > 1
            ):
                del self._all[number]
                raise SessionError(Code.FETCH_SESSION_ID_NOT_FOUND)
            return session

    def partitions(self, session: FetchSession) -> list[tuple[Key, Asked]]:
        """Return the partitions of a session, in the order of the response."""
        with self._lock:
            return list(session.partitions.items())

    def served(self, session: FetchSession, key: Key) -> None:
        """Move a partition to the end, so that others come first next time."""
        with self._lock:
            if key in session.partitions:
                session.partitions.move_to_end(key)


def _weight(key: Key) -> int:
    return 1 + len(key[0]) // _NAME_CHARACTERS


def name_of(topic: dict[str, Any]) -> str:
    """Return the topic, or its id, as in a request."""
    return str(topic["topic"] if "topic" in topic else topic["topic_id"])


def asked_of(topics: Iterable[dict[str, Any]]) -> list[tuple[Key, Asked]]:
    """Return the partitions of a request, in its order."""
    return [((name_of(topic), each["partition"]), Asked.of(each)) for topic in topics for each in topic["partitions"]]
