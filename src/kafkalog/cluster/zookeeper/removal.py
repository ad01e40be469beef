"""Predict the order in which a new controller (ZooKeeper mode) removes missing brokers from the ISRs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

__all__ = ["removal_order"]

_WORD = (1 << 32) - 1
_DIGIT_BITS = 5


def removal_order(lost: Collection[int]) -> list[int]:
    """Return the brokers in the order of removal, duplicates included."""
    return _in_trie([(_improved(each), each) for each in lost])


def _in_trie(hashed: list[tuple[int, int]]) -> list[int]:
    """Order (hash, broker id) pairs as Scala's hash trie iterates over them; return the broker ids.

    At each level entries are grouped by the lowest digit (5 bits) of their hash. Entries with a digit of their own come
    first, by digit; then the groups with a common digit, by digit, each ordered in this way by its next digits.
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
    """`Hashing.improve`: one to one on 32 bits, so any two keys differ in some digit."""
    word = (key + ~(key << 9)) & _WORD
    word ^= word >> 14
    word = (word + (word << 4)) & _WORD
    return word ^ word >> 10
