"""What a Python worker of Spark has loaded is not examined again by the garbage collector.

PySpark's daemon collects garbage after every task of a worker (`pyspark/daemon.py`), which costs time for every object
that is alive: with numpy and pyarrow loaded about 25 ms, as much as reading 2 MB.  Those objects stay as long as
the worker does, so they are set aside once.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

__all__ = ["set_aside"]

_done = False


def set_aside() -> None:
    """Once in a worker, when a task has loaded what it needs; elsewhere nothing happens."""
    global _done
    if _done or TaskContext.get() is None:
        return
    _done = True
    gc.collect()  # what is garbage now would otherwise stay forever
    gc.freeze()
