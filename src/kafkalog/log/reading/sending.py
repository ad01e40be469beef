"""Bytes of a log into a descriptor that the caller has opened: a socket, a pipe, a file (`FileMessageSet.writeTo`)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.codec.errors import StorageError

__all__ = ["send", "send_file", "send_some"]

_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.ENOTSOCK)


@contextmanager
def _wrapped() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError.wrap(error, "cannot send") from error


def send(target: int, data: bytes | memoryview) -> None:
    """Write bytes where the descriptor stands."""
    view = memoryview(data)
    with _wrapped():
        while view:
            view = view[os.write(target, view) :]


def send_file(target: int, source: int, position: int, length: int) -> int:
    """Let the system send a part of a file without reading it here; gives how many bytes went, 0 where it cannot."""
    sent = 0
    with _wrapped():
        while sent < length:
            try:
                count = os.sendfile(target, source, position + sent, length - sent)
            except OSError as error:
                if sent == 0 and error.errno in _CANNOT:
                    return 0
                raise
            if count == 0:
                break
            sent += count
    return sent


def send_some(target: int, source: int, position: int, most: int) -> int:
    """Send to a socket that does not block as much as it takes now.

    Raises `BlockingIOError` where it takes nothing, and other errors as they are.
    """
    return os.sendfile(target, source, position, most)
