"""Warnings of a query, with Python's `warnings` and `logging`.

Spark shows neither for a worker, but writes its standard error to the executor's log.
"""

from __future__ import annotations

import logging
import warnings

__all__ = ["LOGGER", "tell"]

LOGGER = logging.getLogger("kafkalog.spark")


def tell(sentence: str, category: type[Warning] = RuntimeWarning) -> None:
    """Send a sentence to both."""
    LOGGER.warning(sentence)
    warnings.warn(sentence, category, stacklevel=3)
