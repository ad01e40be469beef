"""Write the headers of many batches at once with compiled code. Needs numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.codec.model import BATCH
from kafkalog.codec.native.functions import put_checksums

__all__ = ["put_headers"]


def put_headers(target: Any, table: Any, starts: Any, sizes: Any) -> None:
    """Write headers with checksums into `target`, from a table of `BATCH.dtype()`. `starts` are the batches' positions
    in `target`, `sizes` their whole sizes, both in bytes.
    """
    target[starts[:, None] + np.arange(BATCH.size)] = table.view(np.uint8).reshape(len(table), BATCH.size)
    put_checksums(starts + target.ctypes.data, sizes)
