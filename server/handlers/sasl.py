"""SASL/PLAIN: who may ask at all (`SaslServerAuthenticator`, `PlainSaslServer`)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from kafkalog.server.connection import Connection
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.wire import Fields, Request, RequestError

__all__ = ["SaslHandler"]

_PLAIN = "PLAIN"
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = "ApiVersions", "SaslHandshake", "SaslAuthenticate"


class SaslHandler:
    """`users` are passwords by name; without any, everybody may ask.

    `largest` bytes may be in a request of who has said who it is.
    """

    def __init__(
        self, users: Mapping[str, str], largest: int, complain: Callable[[str], None] = lambda _: None
    ) -> None:
        self._users = dict(users)
        self._complain = complain
        self._largest = largest

    def admit(self, request: Request, connection: Connection) -> None:
        """Raises `RequestError` for what may not be asked yet."""
        allowed = (_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE)
        if self._users and not connection.authenticated and request.api.name not in allowed:
            raise RequestError(f"{request.api.name} before SASL has told who asks")

    def handshake(self, request: Request, connection: Connection) -> Fields:
        """`SaslHandshake`: PLAIN, or nothing."""
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

    def authenticate(self, request: Request, connection: Connection) -> Fields:
        """`SaslAuthenticate`: name and password; the connection ends if they are wrong."""
        nothing = {"error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
        if not self._users or connection.mechanism is None or connection.authenticated:
            message = "SaslAuthenticate without a handshake, or where nobody asked for it"
            return {**nothing, "error_code": Code.ILLEGAL_SASL_STATE, "error_message": message}
        if self._knows(request.body["auth_bytes"]):
            connection.authenticated = True
            connection.largest = self._largest
            return {**nothing, "error_code": Code.NONE}
        connection.closing = True
        self._complain(f"{connection.peer}: turned away: nobody has this name and password")
        message = "Authentication failed: Invalid username or password"
        return {**nothing, "error_code": Code.SASL_AUTHENTICATION_FAILED, "error_message": message}

    def _knows(self, data: bytes) -> bool:
        parts = data.split(b"\0")
        if len(parts) != 3:
            return False
        authorization, name, password = parts
        if authorization not in (b"", name):
            return False
        expected = self._users.get(name.decode("utf-8", "surrogateescape"))
        # an unknown name takes as long as a wrong password
        same = hmac.compare_digest(password, (expected or "").encode())
        return same and expected is not None
