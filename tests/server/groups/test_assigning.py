"""The server's own assignments: complete, even, and no more changed than they must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.server.groups.assigning import Place, uniform

NAMES = [f"m{number}" for number in range(6)]
TOPICS = [f"t{number}" for number in range(4)]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), max_size=4)
SUBSCRIPTIONS = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(TOPICS)), max_size=6)


Given = Mapping[str, Collection[Place]]


def check(found: Given, subscriptions: Mapping[str, set[str]], counts: Mapping[str, int]) -> None:
    """Everything that somebody wants is given once, and to somebody who wants it."""
    wanted = set[str]().union(*subscriptions.values()) & counts.keys()
    given_out = Counter(place for places in found.values() for place in places)
    assert given_out == Counter((topic, number) for topic in wanted for number in range(counts[topic]))
    assert found.keys() == subscriptions.keys()
    for member, places in found.items():
        assert {topic for topic, _ in places} <= subscriptions[member]


@given(SUBSCRIPTIONS, COUNTS)
def test_everything_is_given_once_to_who_wants_it(subscriptions: dict[str, set[str]], counts: dict[str, int]) -> None:
    check(uniform(subscriptions, counts, {}), subscriptions, counts)


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.sets(st.sampled_from(NAMES), min_size=1), COUNTS)
def test_members_come_and_go(first: set[str], second: set[str], counts: dict[str, int]) -> None:
    """With equal subscriptions: loads differ by one at most, and nothing moves that need not."""
    before = uniform({name: set(TOPICS) for name in first}, counts, {})
    subscriptions = {name: set(TOPICS) for name in second}
    after = uniform(subscriptions, counts, before)
    check(after, subscriptions, counts)
    loads = [len(places) for places in after.values()]
    assert max(loads) - min(loads) <= 1
    total, count = sum(counts.values()), len(second)
    most = sorted((len(before[name]) for name in first & second), reverse=True)
    extra = total % count
    stay = sum(min(had, total // count + (rank < extra)) for rank, had in enumerate(most))
    assert sum(len(before[name] & after[name]) for name in first & second) == stay


@given(SUBSCRIPTIONS, COUNTS)
def test_a_second_time_nothing_moves(subscriptions: dict[str, set[str]], counts: dict[str, int]) -> None:
    once = uniform(subscriptions, counts, {})
    assert uniform(subscriptions, counts, once) == once
