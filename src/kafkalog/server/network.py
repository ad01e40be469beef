"""The sockets: one thread that accepts, and a few that serve connections (Kafka's `SocketServer`)."""

from __future__ import annotations

import errno
import itertools
import os
import selectors
import socket
import ssl
import threading
from collections.abc import Callable

from kafkalog.codec.common.errors import StorageError
from kafkalog.server.admission import Admission
from kafkalog.server.answers import Change
from kafkalog.server.connection import Connection
from kafkalog.server.limits import NetworkLimits
from kafkalog.server.memory import RequestMemory
from kafkalog.server.processor import Handler, Processor

__all__ = ["Network"]

_BACKLOG = 256
_SEND_BUFFER_BYTES = 1 << 18
"""Data in flight fits into a processor's cache. A larger buffer serves a client that only counts bytes 15 % faster, and
costs one that decodes them up to half more processor time.
"""

_WHY_NOT = {
    errno.EADDRINUSE: "another program does, so the port is in use; port 0 is any that is free",
    errno.EADDRNOTAVAIL: "this machine does not have the address",
    errno.EACCES: "this port is for the administrator alone",
}


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        host.encode("idna")  # the socket would be left open
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except UnicodeError:
        number, reason = errno.EADDRNOTAVAIL, "that is not the name of a machine"
    except OSError as error:
        number = error.errno or errno.EIO
        reason = _WHY_NOT.get(number) or os.strerror(number)
        if number < 0:  # what look-ups of names give is below the system's own numbers
            number, reason = errno.EADDRNOTAVAIL, "no address is known for this name"
    raise StorageError(number, f"cannot listen there: {reason}", f"{host}:{port}")


class Network:
    """The listening socket, the thread that accepts connections, and the threads that serve them. `address` is the
    listening address. Raises `StorageError` if it cannot listen there.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        processors: int,
        limits: NetworkLimits,
        complain: Callable[[str], None],
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._listener = _listening(*address)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._limits = limits
        self._tls = tls
        self._complain = complain
        self._count = processors
        self._processors: list[Processor] = []
        self._admission = Admission(limits)
        self._memory = RequestMemory(max(limits.request_memory, limits.request_bytes), self._released)
        self._stopping = threading.Event()
        self._acceptor = threading.Thread(target=self._accept_all, name="kafkalog-server-acceptor", daemon=True)

    def start(self, handler: Handler) -> None:
        """Start the serving threads and the accepting thread; requests go to `handler`. May be called once."""
        for number in range(self._count):
            self._processors.append(Processor(number, self._count, handler, self._memory, self._limits,
                                              self._admission.gone, self._complain))  # fmt: skip
        for processor in self._processors:
            processor.start()
        self._acceptor.start()

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return self._admission.count

    @property
    def memory(self) -> RequestMemory:
        """Memory used by large requests."""
        return self._memory

    def changed(self, what: Change) -> None:
        """Poll every promise that waits for `what`."""
        for processor in self._processors:
            processor.changed(what)

    def _released(self) -> None:
        for processor in self._processors:
            processor.released()

    def stop(self) -> None:
        """Stop accepting, close the listening socket and all connections, and wait until all threads have ended."""
        self._stopping.set()
        if self._acceptor.is_alive():
            self._acceptor.join()
        self._listener.close()
        for processor in self._processors:
            processor.stop()
        for processor in self._processors:
            processor.join()

    def _accept_all(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        turn = itertools.cycle(self._processors)
        while not self._stopping.is_set():
            if not selector.select(0.2):
                continue
            try:
                sock, peer = self._listener.accept()
            except OSError as error:  # gone again, or no descriptor is left: the next one may come
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._complain("no descriptor is left for another client; it waits")
                    self._stopping.wait(0.1)
                self._stopping.wait(0.01)
                continue
            connection = self._prepared(sock, peer[0], f"{peer[0]}:{peer[1]}")
            if connection is not None:
                processor = next(turn)
                self._admission.add(connection, processor.drop)
                processor.adopt(connection)
        selector.close()

    def _prepared(self, sock: socket.socket, host: str, peer: str) -> Connection | None:
        why = self._admission.make_room(host)
        if why is not None:
            self._complain(f"{peer}: turned away: {why}")
            sock.close()
            return None
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            if self._tls is not None:
                sock = self._tls().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):
            sock.close()
            return None
        most = self._limits.request_bytes
        return Connection(sock, peer, min(most, self._limits.first_bytes or most), self._memory, host)
