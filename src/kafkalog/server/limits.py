"""What clients may take of the server."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["NetworkLimits"]


class NetworkLimits(Struct, frozen=True, kw_only=True):
    """What clients may take."""

    request_bytes: int = 8 << 20
    """in one request"""
    first_bytes: int | None = None
    """in one request of a client that has not said yet who it is; as many without it"""
    connections: int = 1000
    request_seconds: float = 30
    """from the first byte of a request to its last"""
    send_seconds: float = 60
    """without taking anything of a response"""
    idle_seconds: float = 600
    """without a request (`connections.max.idle.ms`)"""
    authenticate_seconds: float = 10
    """to say who it is, where that is asked for, and to begin TLS"""
    waiting_seconds: float = 2
    """from the first byte of a large request to its last, while others wait for the memory that it was admitted to"""
    request_memory: int = 32 << 20
    """for all large requests that are coming or were not looked at yet; others wait"""
    response_memory: int = 32 << 20
    """of all responses that are not taken; who holds most then goes"""
