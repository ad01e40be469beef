"""Limits for clients."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["NetworkLimits"]


class NetworkLimits(Struct, frozen=True, kw_only=True):
    """Limits for clients."""

    request_bytes: int = 8 << 20
    """size of a request"""
    first_bytes: int | None = None
    """size of a request before authentication; None means no authentication is needed"""
    connections: int = 1000
    request_seconds: float = 30
    """time to receive a whole request"""
    send_seconds: float = 60
    """time without progress in sending a response"""
    idle_seconds: float = 600
    """time without a request (`connections.max.idle.ms`)"""
    authenticate_seconds: float = 10
    """time for authentication, if needed, and for the TLS handshake"""
    waiting_seconds: float = 2
    """time to receive a large request while others wait for memory"""
    request_memory: int = 32 << 20
    """total size of large requests that are being received or not handled yet; others wait"""
    response_memory: int = 32 << 20
    """total size of unsent responses; beyond it, the clients with the most are disconnected"""
