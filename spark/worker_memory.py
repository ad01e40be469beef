"""Keep the garbage collector from examining loaded modules in Spark's Python workers.

PySpark's daemon collects garbage after every task of a worker (`pyspark/daemon.py`), which takes time for every live
object. With numpy and pyarrow loaded it is about 25 ms, as much as reading 2 MB. These objects live as long as the
worker, so they are frozen once.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

__all__ = ["set_aside"]

_done = False


def set_aside() -> None:
    """Collect garbage, and exempt all present objects from later collections (`gc.freeze`). Called after a task has
    loaded what it needs; only the first call in a Python worker has an effect, and none outside of a Spark task.
    """
    global _done
    if _done or TaskContext.get() is None:
        return
    _done = True
    gc.collect()  # frozen garbage would never be collected
    gc.freeze()
