"""In which order a new controller with ZooKeeper takes brokers that are not there out of the ISRs.

`ZkReplicaStateMachine.handleStateChanges` groups replicas by broker, and goes through the groups as an
`immutable.HashMap` of Scala 2.13 has them.  The last of an ISR stays in it, so this order says who.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

__all__ = ["removal_order"]

_WORD = (1 << 32) - 1
_DIGIT_BITS = 5


def removal_order(lost: Collection[int]) -> list[int]:
    """The brokers, each as often as it is given."""
    return _in_trie([(_improved(each), each) for each in lost])


def _in_trie(hashed: list[tuple[int, int]]) -> list[int]:
    """By the last digit of their hashes those who are alone with it; then in the same way those who share one."""
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
