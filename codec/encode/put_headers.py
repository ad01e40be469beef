"""Headers of many batches written at once by compiled code; needs numba and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.codec.kernels.loading import Kernel
from kafkalog.codec.model import BATCH

__all__ = ["put_headers"]

_put_checksums = Kernel("encode", "put_checksums")


def put_headers(target: Any, table: Any, starts: Any, sizes: Any) -> None:
    """Write the headers of whole batches that lie in `target`, from a table of `BATCH.dtype()`, with checksums."""
    target[starts[:, None] + np.arange(BATCH.size)] = table.view(np.uint8).reshape(len(table), BATCH.size)
    _put_checksums(starts + target.ctypes.data, sizes)
