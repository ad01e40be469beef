"""Count records and bytes by time of append and topic, in buckets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

__all__ = ["Series", "Timeline"]

_MOST_BUCKETS = 4096
"""Most buckets that are kept; if there are more, they become wider."""
_SHOWN = 120
_DAY = 86_400_000
_WIDTHS = [1, 10, 50, 100, 500, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000,
           10_800_000, 21_600_000, 43_200_000,
           *(_DAY * factor * 10**power for power in range(13) for factor in (1, 5))]  # fmt: skip
"""Widths of a bucket in ms; each is a multiple of the one before."""
_NEARLY_ALL = 0.999
"""Share of the bytes that the chart covers. What lies far outside is only counted, so that one wrong clock hides
nothing.
"""
_MOST_TOPICS = 1000
_OTHERS = ""
"""Name for all topics beyond the first thousand."""


class Series(Struct, frozen=True, kw_only=True):
    """Counts in equal buckets of time from `start` (ms since 1970) on. Records outside of the buckets are only
    counted.
    """

    start: int
    width: int
    """width of a bucket in ms"""
    topics: dict[str, list[tuple[int, int]]]
    """(records, bytes) of each bucket by topic; the topic with most bytes first"""
    outside: int = 0
    """number of records outside the buckets"""
    untimed: int = 0
    """number of records in batches without a timestamp"""

    @property
    def end(self) -> int:
        """End of the last bucket in ms since 1970, exclusive."""
        return self.start + self.width * max((len(buckets) for buckets in self.topics.values()), default=0)


class Timeline(Struct, kw_only=True):
    """Collector of batches by time and topic."""

    width: int = _WIDTHS[0]
    """width of a bucket in ms"""
    untimed: int = 0
    _buckets: dict[int, dict[str, tuple[int, int]]] = {}
    _names: set[str] = set()
    _entries: int = 0

    def add(self, topic: str, timestamp: int, records: int, size: int) -> None:
        """Add a batch to its time bucket. `size` is in bytes, and `timestamp` is its largest timestamp in ms since
        1970. If `timestamp` is negative, the batch has no time, and its records are only counted in `untimed`.

        Once there are `_MOST_TOPICS` topics, further topics are counted together as one. If there are too many buckets,
        or too many topics in them, all buckets are widened, so memory stays bounded.
        """
        if timestamp < 0:
            self.untimed += records
            return
        if topic not in self._names:
            if len(self._names) >= _MOST_TOPICS:
                topic = _OTHERS
            self._names.add(topic)
        of_bucket = self._buckets.setdefault(timestamp // self.width, {})
        before = of_bucket.get(topic)
        if before is None:
            self._entries += 1
            before = (0, 0)
        of_bucket[topic] = (before[0] + records, before[1] + size)
        while len(self._buckets) > _MOST_BUCKETS or (self._entries > 8 * _MOST_BUCKETS and len(self._buckets) > _SHOWN):
            self._widen()

    def _widen(self) -> None:
        before, self.width = self.width, _WIDTHS[_WIDTHS.index(self.width) + 1]
        times = self.width // before
        wider: dict[int, dict[str, tuple[int, int]]] = {}
        for number, topics in self._buckets.items():
            target = wider.setdefault(number // times, {})
            for topic, (records, size) in topics.items():
                had = target.get(topic, (0, 0))
                target[topic] = (had[0] + records, had[1] + size)
        self._buckets = wider
        self._entries = sum(len(by_topic) for by_topic in wider.values())

    def series(self) -> Series | None:
        """Return the counts in at most `_SHOWN` buckets of equal width, with topics ordered by bytes, largest first;
        None if no batch has a timestamp. Buckets far outside with few bytes are left out (see `_window`), and `outside`
        counts their records.
        """
        if not self._buckets:
            return None
        first, last = self._window()
        widths = (each // self.width for each in _WIDTHS if each >= self.width)
        per = next(width for width in widths if last // width - first // width < _SHOWN)
        start = first // per
        count = last // per - start + 1
        topics: dict[str, list[tuple[int, int]]] = {}
        outside = 0
        for number, of_bucket in self._buckets.items():
            for topic, (records, size) in of_bucket.items():
                if not first <= number <= last:
                    outside += records
                    continue
                row = topics.setdefault(topic, [(0, 0)] * count)
                bucket = number // per - start
                row[bucket] = (row[bucket][0] + records, row[bucket][1] + size)
        ordered = sorted(topics.items(), key=lambda item: (-sum(size for _records, size in item[1]), item[0]))
        return Series(
            start=start * per * self.width,
            width=per * self.width,
            topics=dict(ordered),
            outside=outside,
            untimed=self.untimed,
        )

    def _window(self) -> tuple[int, int]:
        """Return the numbers of the first and the last bucket to show (inclusive). Buckets at both ends that have at
        most 0.1 % of all bytes together are left out. If a quarter of the range or more would then remain, all buckets
        are shown. There must be at least one bucket.
        """
        numbers = sorted(self._buckets)
        sizes = {number: sum(size for _records, size in self._buckets[number].values()) for number in numbers}
        left = sum(sizes.values()) * (1 - _NEARLY_ALL)
        low, high = 0, len(numbers) - 1
        dropped = 0.0
        for ends in _outermost(numbers):
            dropped += sizes[ends]
            if dropped > left:
                break
            low, high = (low + 1, high) if numbers[low] == ends else (low, high - 1)
        whole, inner = numbers[-1] - numbers[0] + 1, numbers[high] - numbers[low] + 1
        return (numbers[low], numbers[high]) if inner * 4 < whole else (numbers[0], numbers[-1])


def _outermost(numbers: list[int]) -> Iterable[int]:
    """Yield the numbers of a sorted list from both ends inwards. Of the two outermost numbers that remain, the one that
    is farther from its neighbor is yielded next; the lower one if both are equally far. The last remaining number is
    not yielded.
    """
    low, high = 0, len(numbers) - 1
    while low < high:
        if numbers[low + 1] - numbers[low] >= numbers[high] - numbers[high - 1]:
            yield numbers[low]
            low += 1
        else:
            yield numbers[high]
            high -= 1
