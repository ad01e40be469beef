"""Headers of many batches written at once by compiled code; needs numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.codec.model import BATCH
from kafkalog.codec.native.functions import put_checksums

__all__ = ["put_headers"]



def put_headers(target: Any, table: Any, starts: Any, sizes: Any) -> None:
    """Write the headers of whole batches that lie in `target`, from a table of `BATCH.dtype()`, with checksums."""
    target[starts[:, None] + np.arange(BATCH.size)] = table.view(np.uint8).reshape(len(table), BATCH.size)
    put_checksums(starts + target.ctypes.data, sizes)
