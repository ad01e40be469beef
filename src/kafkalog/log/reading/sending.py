"""Send bytes of a log to a descriptor that the caller opened: a socket, a pipe or a file (`FileMessageSet.writeTo`)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.codec.common.errors import StorageError

__all__ = ["send", "send_file", "send_some"]

_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.ENOTSOCK)


@contextmanager
def _wrapped() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError.wrap(error, "cannot send") from error


def send(target: int, data: bytes | memoryview) -> None:
    """Write all of `data` to the descriptor `target`, at its position. Blocks until all is written. Raises
    `StorageError` if writing fails, also if a non-blocking descriptor accepts no more: a part may be written then.
    """
    view = memoryview(data)
    with _wrapped():
        while view:
            view = view[os.write(target, view) :]


def send_file(target: int, source: int, position: int, length: int) -> int:
    """Copy `length` bytes from byte `position` of the file open as `source` to the descriptor `target`, with the
    system's `sendfile`. Blocks until all is sent. Return the number of bytes sent: fewer if the file ends before, 0 if
    it ends at `position`, or if `sendfile` cannot be used for these descriptors. Raises `StorageError` for other
    errors, also if a non-blocking `target` accepts no more: a part may be sent then.
    """
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
    """Send bytes of the file open as `source`, from byte `position` and at most `most`, to a non-blocking socket: as
    many as it accepts now. Return their number, 0 if the file ends at `position`. Raises `BlockingIOError` if the
    socket accepts nothing, and other `OSError`s of the system.
    """
    return os.sendfile(target, source, position, most)
