"""Run computations in slices: generators that pause so that other tasks of a thread can run."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["Sliced", "run_slices"]

T = TypeVar("T")

Sliced = Generator[None, None, T]
"""Generator that yields None at each pause and returns the result."""


def run_slices(task: Sliced[T]) -> T:
    """Run a computation to its end without pausing, and return its result. Callers need a thread of their own. Errors
    of the computation pass through.
    """
    while True:
        try:
            next(task)
        except StopIteration as end:
            result: T = end.value
            return result
