"""Prediction of the order in which a new controller (ZooKeeper mode) removes missing brokers from the ISRs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

__all__ = ["removal_order"]

_WORD = (1 << 32) - 1
_DIGIT_BITS = 5


def removal_order(lost: Collection[int]) -> list[int]:
    """Return the broker ids in the order of their removal, duplicates included."""
    return _in_trie([(_improved(each), each) for each in lost])


def _in_trie(hashed: list[tuple[int, int]]) -> list[int]:
    """Return the broker ids of (hash, broker id) pairs in the order in which Scala's hash trie iterates over them. On
    each level, pairs are grouped by the lowest digit (5 bits) of their hash. Groups of one pair come first, sorted by
    digit. Larger groups follow, also sorted by digit; within each, the next digits decide in the same way.
    """
    digits: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for code, node in hashed:
        digits[code & ((1 << _DIGIT_BITS) - 1)].append((code >> _DIGIT_BITS, node))
    alone: list[int] = []
    sharing: list[int] = []
    for _, members in sorted(digits.items()):
        if len(set(members)) == 1:
            alone += [node for _, node in members]
        else:
            sharing += _in_trie(members)
    return alone + sharing


def _improved(key: int) -> int:
    """Hash a broker id as `Hashing.improve` does. The hash is one to one on 32 bits, so any two ids differ in some
    digit.
    """
    word = (key + ~(key << 9)) & _WORD
    word ^= word >> 14
    word = (word + (word << 4)) & _WORD
    return word ^ word >> 10
