"""Which topic-partitions are meant: names, patterns, numbers, and names that do not exist."""

from __future__ import annotations

import pytest

from kafkalog.codec.common.errors import UnknownName, UsageError
from kafkalog.codec.common.unknown import nearest, quoted, unknown
from kafkalog.log.directories.selection import ALL, Selection

KEYS = [("orders", 0), ("orders", 1), ("orders-eu", 0), ("payments", 0), ("Payments", 3), ("__consumer_offsets", 12)]


def taken(chosen: Selection) -> list[str]:
    return [f"{topic}-{number}" for topic, number in KEYS if chosen.takes(topic, number)]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (ALL, [f"{topic}-{number}" for topic, number in KEYS]),
        (Selection.of(["orders"]), ["orders-0", "orders-1"]),
        (Selection.of(["orders*"]), ["orders-0", "orders-1", "orders-eu-0"]),
        (Selection.of(["pay*"]), ["payments-0"]),
        (Selection.of(["[Pp]ay*"]), ["payments-0", "Payments-3"]),
        (Selection.of(["orders", "pay?ents"]), ["orders-0", "orders-1", "payments-0"]),
        (Selection.of([], [0]), ["orders-0", "orders-eu-0", "payments-0"]),
        (Selection.of(["orders*"], [1, 7]), ["orders-1"]),
        (Selection.of([], [], ["orders"]), ["orders-eu-0", "payments-0", "Payments-3", "__consumer_offsets-12"]),
        (Selection.of(["*"], [], ["__*", "orders-1"]), ["orders-0", "orders-eu-0", "payments-0", "Payments-3"]),
        (Selection.of([], [], ["[!o]*"]), ["orders-0", "orders-1", "orders-eu-0"]),
    ],
)
def test_names_and_patterns(chosen: Selection, expected: list[str]) -> None:
    assert taken(chosen) == expected


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (Selection.of(["ordes"]), "there is no topic 'ordes'; did you mean 'orders'?"),
        (Selection.of(["ORDERS"]), "there is no topic 'ORDERS'; did you mean 'orders'?"),
        (Selection.of(["zzz"]), "there is no topic 'zzz'"),
        (Selection.of(["zzz*"]), "no topic matches 'zzz*'"),
        (Selection.of(["orders", "["]), "no topic matches '['"),
        (Selection.of(["orders"], [0, 2]), "topic 'orders' has no partition 2 here; it has partitions 0, 1"),
        (Selection.of([], [99]), "there is no partition 99 of any topic"),
        (Selection.of(["*s"], [99]), "there is no partition 99 of any topic that was selected"),
        (Selection.of([], [], ["payment"]), "there is no topic or partition 'payment'; did you mean 'payments'?"),
        (Selection.of([], [], ["orders-7"]), "there is no topic or partition 'orders-7'; did you mean 'orders-1'?"),
    ],
)
def test_what_does_not_exist_is_said_not_to(chosen: Selection, sentence: str) -> None:
    with pytest.raises(UnknownName) as caught:
        chosen.check(KEYS)
    assert str(caught.value) == sentence


def test_what_exists_is_let_pass() -> None:
    for chosen in (ALL, Selection.of(["orders", "p*"], [0], ["orders-1", "none*"])):
        chosen.check(KEYS)


def test_nothing_left_is_a_contradiction() -> None:
    with pytest.raises(UsageError, match="everything that was selected is excluded") as caught:
        Selection.of(["orders"], [], ["ord*"]).check(KEYS)
    assert not isinstance(caught.value, UnknownName)


def test_a_partition_without_a_name_is_meant_only_where_all_are() -> None:
    assert ALL.takes(None, None)
    assert not Selection.of(["*"]).takes(None, None)


def test_thousands_of_patterns_and_names() -> None:
    names = [(f"topic-{number}", number % 3) for number in range(3000)]
    chosen = Selection.of(
        [f"topic-{number}*" for number in range(0, 3000, 2)], [], [f"*-{number}" for number in range(3, 9)]
    )
    chosen.check(names)
    assert not chosen.takes("topic-4", 1)
    assert chosen.takes("topic-200", 11)


def test_a_pattern_that_could_try_for_ever_does_not() -> None:
    assert not Selection.of(["*a" * 2000 + "b"]).takes("a" * 249, 0)


def test_long_names_are_cut_and_not_compared() -> None:
    assert str(unknown("topic", "a" * 10_000, ["a" * 249])) == f"there is no topic '{'a' * 120}…'"
    assert quoted("orders") == "'orders'"
    assert nearest("orders", []) is None
