"""The sticky assignors for members with different subscriptions (`AbstractStickyAssignor`, general case, 3.x and
later).

Every member keeps the partitions that it owns and still subscribes to. Free partitions are assigned to the member with
the fewest. Then partitions are moved in a fixed order as long as this makes the group more even, preferably back to
their previous owners. Two facts are not in a group's record and are assumed: the leader has seen no newer generation
than its members report, and racks have no influence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kafkalog.cluster.rules.java import hash_order, topic_partition_hash

__all__ = ["GeneralSticky", "TooMuchWorkError"]

_Place = tuple[str, int]
_UNKNOWN = -1
_MOST_STEPS = 3_000_000
"""most steps of a search that grows with members times partitions; then it is abandoned"""


class TooMuchWorkError(LookupError):
    """The group is too large to compute an assignment in reasonable time."""


def _key(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


class Subscriber(Struct, frozen=True, kw_only=True):
    """A member with its subscription, and what it owned in which generation (-1 if unknown)."""

    member_id: str
    topics: frozenset[str]
    owned: tuple[_Place, ...]
    generation: int


class _HashSet(Struct):
    """A Java `HashSet` of partitions, as far as it is needed: which item comes first in its iteration order."""

    items: list[_Place] = field(default_factory=list)
    peak: int = 0

    def add(self, place: _Place) -> None:
        self.items.append(place)
        self.peak = max(self.peak, len(self.items))

    def first(self) -> _Place:
        capacity = 16
        while self.peak > capacity * 3 // 4:
            capacity *= 2
        return hash_order(self.items, lambda place: topic_partition_hash(*place), capacity)[0]


class _Movements:
    """Moves of partitions between members; a second move in the opposite direction is replaced by undoing the first."""

    def __init__(self) -> None:
        self.pairs: dict[_Place, tuple[str, str]] = {}
        self.by_topic: dict[str, dict[tuple[str, str], _HashSet]] = {}

    def _forget(self, place: _Place) -> tuple[str, str]:
        pair = self.pairs.pop(place)
        moved = self.by_topic[place[0]]
        moved[pair].items.remove(place)
        if not moved[pair].items:
            del moved[pair]
        if not moved:
            del self.by_topic[place[0]]
        return pair

    def note(self, place: _Place, source: str, target: str) -> None:
        if place in self.pairs:
            source = self._forget(place)[0]
            if source == target:  # it is back where it came from
                return
        self.pairs[place] = (source, target)
        self.by_topic.setdefault(place[0], {}).setdefault((source, target), _HashSet()).add(place)

    def instead_of(self, place: _Place, source: str, target: str) -> _Place:
        moved = self.by_topic.get(place[0])
        if moved is None:
            return place
        source = self.pairs[place][0] if place in self.pairs else source
        back = moved.get((target, source))
        return place if back is None else back.first()


class GeneralSticky:
    """Computation of one sticky assignment; `claims` are the partitions that each member owned, after contradicting
    claims were resolved.
    """

    def __init__(
        self, counts: Mapping[str, int], members: Sequence[Subscriber], claims: Mapping[str, Sequence[_Place]]
    ) -> None:
        self.counts = counts
        self.members = {member.member_id: member for member in members}
        self.wants = {member.member_id: sorted(member.topics & counts.keys()) for member in members}
        self.takers = {topic: [member.member_id for member in members if topic in member.topics] for topic in counts}
        self.given: dict[str, list[_Place]] = {member.member_id: [] for member in members}
        self.holder: dict[_Place, str] = {}
        self.must_revoke = False
        self.movements = _Movements()
        self.steps = 0
        topics = sorted(counts, key=lambda topic: (len(self.takers[topic]), _key(topic)))
        self.places = [(topic, number) for topic in topics for number in range(counts[topic])]
        self.room = {member: sum(counts[topic] for topic in topics) for member, topics in self.wants.items()}
        """largest number of partitions that a member could have"""
        self._keep(claims)
        self.before = self._earlier(members)

    # -- what there was ----------------------------------------------------------------------------------------------

    def _keep(self, claims: Mapping[str, Sequence[_Place]]) -> None:
        for member, owned in claims.items():
            for place in owned:
                self.holder[place] = member
                if place[0] not in self.members[member].topics:
                    self.must_revoke = True
                else:
                    self.given[member].append(place)

    @staticmethod
    def _earlier(members: Sequence[Subscriber]) -> dict[_Place, str]:
        """Return partition -> the member that owned it before the newest generation. Members of the newest generation
        are ignored. If several others claim a partition, the one with the newest generation wins; if generations are
        equal, the first member wins. A partition that none of them claims is omitted. Raises `ValueError` if there are
        no members.
        """
        newest = max(member.generation for member in members)
        found: dict[_Place, tuple[int, str]] = {}
        for each in members:
            if each.generation >= newest:
                continue
            for place in each.owned:
                if place not in found or each.generation > found[place][0]:
                    found[place] = (each.generation, each.member_id)
        return {place: member for place, (_, member) in found.items()}

    def _free(self) -> list[_Place]:
        """Return the unassigned partitions in the order of `self.places`.

        As in Kafka, `self.places` is compared step by step with the sorted list of assigned partitions. If this list
        has a partition that no longer exists, the comparison does not go beyond it. All later partitions are then
        returned too, even if they are assigned.
        """
        held = sorted(
            (place for owned in self.given.values() for place in owned),
            key=lambda place: (len(self.takers[place[0]]), _key(place[0]), place[1]),
        )
        at, free = 0, []
        for place in self.places:
            if at < len(held) and held[at] == place:
                at += 1
            else:
                free.append(place)
        return free

    # -- the way -----------------------------------------------------------------------------------------------------

    def _step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > _MOST_STEPS:
            raise TooMuchWorkError

    def _ordered(self, among: dict[str, list[_Place]]) -> list[str]:
        """Return the member ids in ascending order of the number of their partitions. Raises `TooMuchWorkError` if the
        limit of steps is exceeded.
        """
        self._step(len(among))
        return sorted(among, key=lambda member: (len(among[member]), _key(member)))

    def _give(self, place: _Place, member: str) -> None:
        self.given[member].append(place)
        self.holder[place] = member

    def _next_taker(self, topic: str) -> str | None:
        self._step(len(self.given))
        takers = (member for member in self.takers[topic] if member in self.given)
        return min(takers, key=lambda member: (len(self.given[member]), _key(member)), default=None)

    def _is_fixed(self, member: str) -> bool:
        """Whether a member has all partitions that it could have, and no other member could have any of them."""
        given = self.given[member]
        return len(given) >= self.room[member] and all(len(self.takers[topic]) < 2 for topic, _ in given)

    def _is_balanced(self) -> bool:
        ordered = self._ordered(self.given)
        if len(self.given[ordered[0]]) >= len(self.given[ordered[-1]]) - 1:
            return True
        holder = {place: member for member, owned in self.given.items() for place in owned}
        self._step(len(holder))
        for member in ordered:
            has = len(self.given[member])
            if has == self.room[member]:
                continue
            for topic in self.wants[member]:
                self._step(self.counts[topic])
                for number in range(self.counts[topic]):
                    other = holder[topic, number]
                    if other != member and has + 1 < len(self.given[other]):
                        return False
        return True

    def _move(self, place: _Place, target: str) -> None:
        place = self.movements.instead_of(place, self.holder[place], target)
        source = self.holder[place]
        self.movements.note(place, source, target)
        self.given[source].remove(place)
        self._give(place, target)

    def _even_out(self, places: Sequence[_Place]) -> bool:
        has_moved, modified = False, True
        while modified:
            modified = False
            for place in places:
                if self._is_balanced():
                    break
                target = self._better_holder(place)
                if target is not None:
                    self._move(place, target)
                    has_moved = modified = True
        return has_moved

    def _better_holder(self, place: _Place) -> str | None:
        """Return the member to which `place` should move, or None if it should stay. Candidates are its previous owner
        and then the subscriber with the fewest partitions. The first one with at least two partitions fewer than the
        present holder is returned.

        Adds to `self.steps`. Raises `LookupError` if the limit of steps is exceeded, or if the previous owner is no
        longer in `self.given`.
        """
        has = len(self.given[self.holder[place]])
        for target in (self.before.get(place), self._next_taker(place[0])):
            if target is not None and has > len(self.given[target]) + 1:
                return target
        return None

    def _unevenness(self, given: Mapping[str, Sequence[_Place]]) -> int:
        """Return the sum of the differences in size between all pairs of members."""
        sizes = sorted(len(owned) for owned in given.values())
        return sum(size * (2 * at - len(sizes) + 1) for at, size in enumerate(sizes))

    def assign(self) -> dict[str, list[_Place]]:
        """Compute the assignment; return the list of partitions of each member, empty for a member without any.

        Partitions that no member can have are omitted. Call it only once: it changes the state that it computes from.
        Raises `LookupError` if Kafka's own assignor would throw an exception, or if the computation takes too many
        steps.
        """
        free = self._free()
        begins = not self.given[self._ordered(self.given)[-1]]
        for place in free:
            taker = self._next_taker(place[0])
            if taker is not None:
                self._give(place, taker)
        movable = {topic for topic, takers in self.takers.items() if len(takers) > 1}
        places = [place for place in self.places if place[0] in movable]
        free = [place for place in free if place[0] in movable]
        fixed = {member: self.given[member] for member in self.given if self._is_fixed(member)}
        for member in fixed:
            del self.given[member]
        before = {member: list(owned) for member, owned in self.given.items()}
        if not self.must_revoke:
            self._even_out(free)
        has_moved = self._even_out(places)
        if not begins and has_moved and self._unevenness(self.given) >= self._unevenness(before):
            self.given = before
        return self.given | fixed
