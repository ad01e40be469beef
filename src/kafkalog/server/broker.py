"""The server: dispatch of requests, and its threads.

Processors answer at once whatever needs no walk over a log. A few workers do the rest, and the processor keeps a
promise meanwhile. One more thread lists the directories again and advances the timers of groups.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.server.answering import SERVED, Handlers, Shared
from kafkalog.server.answers import Answer, Change, Later
from kafkalog.server.catalog import Catalog, Permitted, Topic
from kafkalog.server.connection import Connection
from kafkalog.server.deferring import Deferring
from kafkalog.server.error_codes import Code
from kafkalog.server.groups.commits import Commits, CommitsFile
from kafkalog.server.groups.consumer_groups import ConsumerGroups
from kafkalog.server.groups.coordinator import Coordinator
from kafkalog.server.handlers.fetch import FIRST_WITH_IDS, FetchHandler
from kafkalog.server.handlers.refusals import refusal
from kafkalog.server.handlers.sasl import SaslHandler
from kafkalog.server.limits import NetworkLimits
from kafkalog.server.memory import RequestMemory
from kafkalog.server.network import Network
from kafkalog.server.wire import Fields, Request, RequestError

__all__ = ["Complaints", "Server", "ServerOptions"]

_TICK_S = 0.1
_MANY = 1000
"""With more partitions than this, costly requests are answered in another thread."""
_LISTING_SHARE = 10
"""Listing the directories takes at most one part in this many of the time."""
_COMPLAINTS_PER_SECOND = 5
_PORT = re.compile(r"^(\S+:)\d+(?=: )")
"""The port of a client's address, which differs for each connection."""
_FIRST_BYTES = 1 << 19
"""Limit for a request before authentication (`sasl.server.max.receive.size`)."""


class ServerOptions(Struct, frozen=True, kw_only=True):
    """Options of a server, except the address."""

    processors: int = 2
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    tls: Callable[[], ssl.SSLContext] | None = None
    """returns the context for a new connection; None: without TLS"""
    users: Mapping[str, str] = field(default_factory=dict)
    """passwords for SASL/PLAIN by user name; if empty, no authentication is needed"""
    permitted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """topics a user may read, see `Permitted`; a user without an entry may read all"""
    advertised: tuple[str, int] | None = None
    """address told to clients, if different from the listening one; port 0 means the listening port"""
    refresh_seconds: float = 1.0
    commits_file: CommitsFile | None = None


class Complaints:
    """Passes on error messages with limits on rate and repetition."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._second = 0
        self._told = self._left_out = 0
        self._minute = 0
        self._this_minute: set[str] = set()

    def __call__(self, text: str) -> None:
        """Pass a message to `tell`, unless it is repeated or there are too many. A text that was already reported in
        the current minute is dropped; port numbers are ignored in this comparison. At most five new texts are reported
        in a second, and further ones are only counted. The first call in a later second reports their number. A text
        about a client must begin with its address.
        """
        with self._lock:
            now = int(time.monotonic())
            if now != self._second:
                if self._left_out:
                    self._tell(f"and {self._left_out} more of the kind")
                self._second, self._told, self._left_out = now, 0, 0
            if now // 60 != self._minute:
                self._minute = now // 60
                self._this_minute.clear()
            what = _PORT.sub(r"\1", text)
            if what in self._this_minute:
                return
            self._told += 1
            if self._told > _COMPLAINTS_PER_SECOND:
                self._left_out += 1
                return
            self._this_minute.add(what)
            self._tell(text)


class Server:
    """A read-only broker that serves a catalog at an address until it is stopped. A context manager. Raises
    `StorageError` if it cannot listen. `complain` gets error messages.
    """

    def __init__(
        self,
        catalog: Catalog,
        address: tuple[str, int],
        options: ServerOptions | None = None,
        *,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        options = options or ServerOptions()
        self._catalog = catalog
        self._refresh_seconds = options.refresh_seconds
        self._complain = Complaints(complain)
        commits = Commits(lambda: catalog.partitions, as_of=catalog.as_of, file=options.commits_file)
        self._commits = commits
        limits = replace(options.limits, first_bytes=_FIRST_BYTES) if options.users else options.limits
        self._network = Network(
            address, processors=options.processors, limits=limits, complain=self._complain, tls=options.tls
        )
        self.address = self._network.address
        host, port = options.advertised or self.address
        self.advertised = host, port or self.address[1]
        self._deferring = Deferring(self._network.changed, self._complain)
        self._stopping = threading.Event()
        self._coordinator = Coordinator(partial(self._network.changed, Change.GROUPS), self._is_of_consumers)
        self._consumer_groups = ConsumerGroups(catalog, self._coordinator.has_members)
        self._sasl = SaslHandler(options.users, options.limits.request_bytes, self._complain)
        shared = Shared(
            catalog=catalog,
            advertised=self.advertised,
            deferring=self._deferring,
            sasl=self._sasl,
            fetch=FetchHandler(catalog, self._deferring.walk, self._deferring.computed),
            coordinator=self._coordinator,
            consumer_groups=self._consumer_groups,
            commits=commits,
        )
        self._handlers = Handlers(shared, catalog)
        self._handlers_of: dict[str | None, Handlers] = {
            user: Handlers(shared, Permitted(catalog, patterns)) for user, patterns in options.permitted.items()
        }
        self._keeper = threading.Thread(target=self._keep, name="kafkalog-server-keeper", daemon=True)

    def _is_of_consumers(self, group_id: str) -> bool:
        return group_id in self._consumer_groups

    def handle(self, request: Request, connection: Connection) -> Answer:
        """Answer a request: return the fields of the response, or a promise (`Later`) that is polled until the response
        is ready. If more than 1000 partitions are served, requests whose answer may be large are computed in another
        thread. A request that this server does not support, such as a write, is answered with an error code.

        Raises `CrowdedError` if too many requests wait for a thread. Raises `RequestError`, which closes the
        connection, for a request before a required authentication. Raises it also for a Produce request with `acks=0`,
        and for a `SaslHandshake` of version 0 that would otherwise be accepted.
        """
        self._sasl.admit(request, connection)
        served = SERVED.get(request.api.name)
        if served is not None and served.is_costly and self._catalog.partition_count > _MANY:
            return self._deferring.computed(request, connection, lambda: self._answer(request, connection))
        return self._answer(request, connection)

    def _answer(self, request: Request, connection: Connection) -> Answer:
        if request.body.get("isolation_level", 0) not in (0, 1):
            return _without_isolation(request)
        handlers = self._handlers_of.get(connection.user, self._handlers)
        served = SERVED.get(request.api.name)
        if served is not None:
            if served.is_of_the_cluster and handlers.is_limited:
                return refusal(request, Code.CLUSTER_AUTHORIZATION_FAILED)
            return served.answer(handlers, request, connection)
        if request.api.name == "Produce" and request.body["acks"] == 0:
            # nobody would hear of an error: Kafka closes the connection too
            raise RequestError("a request to write that wants no answer")
        return refusal(request)

    def handle_large(self, data: bytes, connection: Connection) -> Later:
        """Parse and answer a large request in another thread; return a promise of the response. `data` is the request
        without its size field.

        Polling the promise raises `RequestError`, which closes the connection, if the request cannot be parsed or
        answered. It is raised also after two minutes, and if the client is not authenticated but must be.
        """

        def answer(request: Request) -> Answer:
            self._sasl.admit(request, connection)
            return self._answer(request, connection)

        return self._deferring.large(data, connection, answer)

    def _keep(self) -> None:
        """Run in its own thread until the server stops. Every 0.1 s, advance the timers of groups and return free
        memory to the system. Every `refresh_seconds`, list the directories again and announce changes to waiting
        fetches; never if it is 0 or less. Listing takes at most a tenth of the time. Unexpected errors of the listing
        are reported and do not end the thread.
        """
        next_listing = time.monotonic() + self._refresh_seconds
        while not self._stopping.wait(_TICK_S):
            self._coordinator.tick()
            self._consumer_groups.tick()
            self._network.memory.trim()
            began = time.monotonic()
            if self._refresh_seconds <= 0 or began < next_listing:
                continue
            try:
                if self._catalog.refresh():
                    self._network.changed(Change.LOGS)
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the thread
                self._complain(f"unexpected {type(error).__name__} while the directories are listed: {error}")
            ended = time.monotonic()
            next_listing = ended + max(self._refresh_seconds, (ended - began) * _LISTING_SHARE)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics served now, by name."""
        return self._catalog.topics

    @property
    def connection_count(self) -> int:
        """Number of connected clients."""
        return self._network.connection_count

    @property
    def memory(self) -> RequestMemory:
        """Memory used by large requests."""
        return self._network.memory

    def start(self) -> None:
        """Start serving."""
        self._network.start(self)
        self._keeper.start()

    def stop(self) -> None:
        """Close every connection, wait for the server's threads, close the open logs, and release the file of committed
        offsets. Worker threads get half a second each.
        """
        self._stopping.set()
        self._network.stop()
        if self._keeper.is_alive():
            self._keeper.join()
        self._deferring.stop()
        self._catalog.files.clear()
        self._commits.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _without_isolation(request: Request) -> Fields:
    """Response to an unknown isolation level. `IsolationLevel.forId` throws for it."""
    if request.api.name == "Fetch" and request.version >= FIRST_WITH_IDS:
        session = request.body["session_id"]
        return {"error_code": Code.UNKNOWN_SERVER_ERROR, "session_id": session, "responses": []}
    return refusal(request, Code.UNKNOWN_SERVER_ERROR)
