"""Send warnings of a query to Python's `warnings` and `logging`.

Spark shows neither for a worker, but writes the worker's standard error to the executor's log.
"""

from __future__ import annotations

import logging
import warnings

__all__ = ["LOGGER", "tell"]

LOGGER = logging.getLogger("kafkalog.spark")


def tell(sentence: str, category: type[Warning] = RuntimeWarning) -> None:
    """Send a sentence as a warning to both `logging` and `warnings`, where its category is `category`."""
    LOGGER.warning(sentence)
    warnings.warn(sentence, category, stacklevel=3)
