"""Computations that pause where somebody else may have a turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["Sliced", "run_slices"]

T = TypeVar("T")

Sliced = Generator[None, None, T]
"""What it returns is its result."""


def run_slices(task: Sliced[T]) -> T:
    """All of it at once, for who has a thread of its own."""
    while True:
        try:
            next(task)
        except StopIteration as end:
            result: T = end.value
            return result
