"""SASL/PLAIN authentication (`SaslServerAuthenticator`, `PlainSaslServer`)."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock

from kafkalog.server.answers import Answer, Change, Later
from kafkalog.server.connection import Connection
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.wire import Fields, Request, RequestError

__all__ = ["SaslHandler"]

_PLAIN = "PLAIN"
_FIRST_DELAY_S, _LONGEST_DELAY_S, _FORGOTTEN_S = 0.1, 10.0, 300.0
"""Delay of the response to a wrong password. The first one is as `connection.failed.authentication.delay.ms`."""
_MOST_HOSTS = 10_000
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = "ApiVersions", "SaslHandshake", "SaslAuthenticate"


class _Failures:
    """Delays of responses after wrong passwords; they grow with each failure of a client address."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def another(self, host: str) -> float:
        """Count a wrong password from the address `host`; return the delay of the response in seconds.

        The delay is 0.1 s after the first one, doubles each time up to 10 s, and starts again after five minutes
        without a failure. Only the last 10,000 addresses are remembered.
        """
        now = time.monotonic()
        with self._lock:
            count, then = self._latest.pop(host, (0, now))
            if now - then > _FORGOTTEN_S:
                count = 0
            self._latest[host] = count + 1, now
            while len(self._latest) > _MOST_HOSTS:
                self._latest.popitem(last=False)
        return min(_FIRST_DELAY_S * 2.0 ** min(count, 10), _LONGEST_DELAY_S)


class SaslHandler:
    """Authenticates clients with SASL/PLAIN. `users` has the passwords by user name; if it is empty, no authentication
    is needed. `largest` is the limit for the size of requests after authentication, in bytes.
    """

    def __init__(
        self, users: Mapping[str, str], largest: int, complain: Callable[[str], None] = lambda _: None
    ) -> None:
        self._users = dict(users)
        self._complain = complain
        self._largest = largest
        self._failures = _Failures()

    def admit(self, request: Request, connection: Connection) -> None:
        """Raise `RequestError`, which closes the connection, if the client must authenticate before this request."""
        allowed = (_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE)
        if self._users and not connection.authenticated and request.api.name not in allowed:
            raise RequestError(f"{request.api.name} before SASL has told who asks")

    def handshake(self, request: Request, connection: Connection) -> Fields:
        """Answer `SaslHandshake`: set the connection's mechanism to PLAIN, the only one offered.

        The error is ILLEGAL_SASL_STATE if no authentication is required or the client is already authenticated. It is
        UNSUPPORTED_SASL_MECHANISM for another mechanism, which is also reported. Raises `RequestError`, which closes
        the connection, for a request of version 0 that would otherwise be accepted.
        """
        mechanisms = [_PLAIN] if self._users else []
        if not self._users or connection.authenticated:
            return {"error_code": Code.ILLEGAL_SASL_STATE, "mechanisms": mechanisms}
        if request.body["mechanism"] != _PLAIN:
            mechanism = brief(request.body["mechanism"])
            self._complain(f"{connection.peer}: SASL with {mechanism} was turned away: PLAIN alone is offered")
            return {"error_code": Code.UNSUPPORTED_SASL_MECHANISM, "mechanisms": mechanisms}
        if request.version == 0:
            raise RequestError("SASL without SaslAuthenticate requests, as clients of before 1.0 do it")
        connection.mechanism = _PLAIN
        return {"error_code": Code.NONE, "mechanisms": mechanisms}

    def authenticate(self, request: Request, connection: Connection) -> Answer:
        """Answer `SaslAuthenticate`: check user name and password. If they are right, mark the connection as
        authenticated, and set its user and its limit for the size of requests.

        If they are wrong, `complain` is called, and the result is a promise of the error SASL_AUTHENTICATION_FAILED. It
        is sent after a delay, which grows with the failures of the client's address; then the connection is closed.
        Without a handshake, or if the client is already authenticated or no authentication is required, the error is
        ILLEGAL_SASL_STATE, and the connection stays open.
        """
        nothing = {"error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
        if not self._users or connection.mechanism is None or connection.authenticated:
            message = "SaslAuthenticate without a handshake, or where nobody asked for it"
            return {**nothing, "error_code": Code.ILLEGAL_SASL_STATE, "error_message": message}
        user = self._known(request.body["auth_bytes"])
        if user is not None:
            connection.authenticated, connection.user = True, user
            connection.largest = self._largest
            return {**nothing, "error_code": Code.NONE}
        connection.closing = True
        self._complain(f"{connection.peer}: turned away: nobody has this name and password")
        message = "Authentication failed: Invalid username or password"
        refused = {**nothing, "error_code": Code.SASL_AUTHENTICATION_FAILED, "error_message": message}
        delay = self._failures.another(connection.host)
        return Later(lambda is_over: refused if is_over else None, int(delay * 1000), Change(0))

    def _known(self, data: bytes) -> str | None:
        parts = data.split(b"\0")
        if len(parts) != 3:
            return None
        authorization, name, password = parts
        if authorization not in (b"", name):
            return None
        user = name.decode("utf-8", "surrogateescape")
        expected = self._users.get(user)
        # an unknown name takes as long as a wrong password
        same = hmac.compare_digest(password, (expected or "").encode())
        return user if same and expected is not None else None
