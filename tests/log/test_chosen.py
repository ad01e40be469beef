"""Which topic-partitions are meant: names, patterns, numbers, and names that do not exist."""

from __future__ import annotations

import pytest

from kafkalog.codec.errors import UnknownName, UsageError
from kafkalog.codec.unknown import nearest, quoted, unknown
from kafkalog.log.directories.chosen import ALL, Chosen

KEYS = [("orders", 0), ("orders", 1), ("orders-eu", 0), ("payments", 0), ("Payments", 3), ("__consumer_offsets", 12)]


def taken(chosen: Chosen) -> list[str]:
    return [f"{topic}-{number}" for topic, number in KEYS if chosen.takes(topic, number)]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (ALL, [f"{topic}-{number}" for topic, number in KEYS]),
        (Chosen.of(["orders"]), ["orders-0", "orders-1"]),
        (Chosen.of(["orders*"]), ["orders-0", "orders-1", "orders-eu-0"]),
        (Chosen.of(["pay*"]), ["payments-0"]),
        (Chosen.of(["[Pp]ay*"]), ["payments-0", "Payments-3"]),
        (Chosen.of(["orders", "pay?ents"]), ["orders-0", "orders-1", "payments-0"]),
        (Chosen.of([], [0]), ["orders-0", "orders-eu-0", "payments-0"]),
        (Chosen.of(["orders*"], [1, 7]), ["orders-1"]),
        (Chosen.of([], [], ["orders"]), ["orders-eu-0", "payments-0", "Payments-3", "__consumer_offsets-12"]),
        (Chosen.of(["*"], [], ["__*", "orders-1"]), ["orders-0", "orders-eu-0", "payments-0", "Payments-3"]),
        (Chosen.of([], [], ["[!o]*"]), ["orders-0", "orders-1", "orders-eu-0"]),
    ],
)
def test_names_and_patterns(chosen: Chosen, expected: list[str]) -> None:
    assert taken(chosen) == expected


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (Chosen.of(["ordes"]), "there is no topic 'ordes'; did you mean 'orders'?"),
        (Chosen.of(["ORDERS"]), "there is no topic 'ORDERS'; did you mean 'orders'?"),
        (Chosen.of(["zzz"]), "there is no topic 'zzz'"),
        (Chosen.of(["zzz*"]), "no topic matches 'zzz*'"),
        (Chosen.of(["orders", "["]), "no topic matches '['"),
        (Chosen.of(["orders"], [0, 2]), "topic 'orders' has no partition 2 here; it has partitions 0, 1"),
        (Chosen.of([], [99]), "there is no partition 99 of any topic"),
        (Chosen.of(["*s"], [99]), "there is no partition 99 of any topic that was selected"),
        (Chosen.of([], [], ["payment"]), "there is no topic or partition 'payment'; did you mean 'payments'?"),
        (Chosen.of([], [], ["orders-7"]), "there is no topic or partition 'orders-7'; did you mean 'orders-1'?"),
    ],
)
def test_what_does_not_exist_is_said_not_to(chosen: Chosen, sentence: str) -> None:
    with pytest.raises(UnknownName) as caught:
        chosen.check(KEYS)
    assert str(caught.value) == sentence


def test_what_exists_is_let_pass() -> None:
    for chosen in (ALL, Chosen.of(["orders", "p*"], [0], ["orders-1", "none*"])):
        chosen.check(KEYS)


def test_nothing_left_is_a_contradiction() -> None:
    with pytest.raises(UsageError, match="everything that was selected is excluded") as caught:
        Chosen.of(["orders"], [], ["ord*"]).check(KEYS)
    assert not isinstance(caught.value, UnknownName)


def test_a_partition_without_a_name_is_meant_only_where_all_are() -> None:
    assert ALL.takes(None, None)
    assert not Chosen.of(["*"]).takes(None, None)


def test_thousands_of_patterns_and_names() -> None:
    names = [(f"topic-{number}", number % 3) for number in range(3000)]
    chosen = Chosen.of(
        [f"topic-{number}*" for number in range(0, 3000, 2)], [], [f"*-{number}" for number in range(3, 9)]
    )
    chosen.check(names)
    assert not chosen.takes("topic-4", 1)
    assert chosen.takes("topic-200", 11)


def test_a_pattern_that_could_try_for_ever_does_not() -> None:
    assert not Chosen.of(["*a" * 2000 + "b"]).takes("a" * 249, 0)


def test_long_names_are_cut_and_not_compared() -> None:
    assert str(unknown("topic", "a" * 10_000, ["a" * 249])) == f"there is no topic '{'a' * 120}…'"
    assert quoted("orders") == "'orders'"
    assert nearest("orders", []) is None
