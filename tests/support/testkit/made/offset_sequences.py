"""Logs whose batches are sound, each for itself, and whose offsets go wherever they go.

Gaps as compaction leaves them, batches twice, stretches twice, older pieces of the log, offsets that run ahead and come
back. A ``Sequence`` is all there is to say about one, and ``write`` makes a log directory of it.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import damage
from testkit.recorded.fixture_data import FIXTURES

RECORDED = FIXTURES / "offset-sequences" / "kafka-4.1.0.jsonl"

UNCLEAN = {"force_unclean": 1}
NOW_MS = 1_700_000_100_000
TOPIC_ID = "version: 0\ntopic_id: EY8sFxa5y9ipvMtiaRixVA"
PROPERTIES = "#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Segments, each a base offset and its batches as (first offset, records, bytes of a value), and a setting."""

    segments: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...]
    index_interval_bytes: int = 4096

    @property
    def params(self) -> dict[str, Any]:
        """Settings as the oracle takes them."""
        return {"index.interval.bytes": self.index_interval_bytes, "segment.index.bytes": 1536, "now_ms": NOW_MS}

    def write(self, root: Path) -> Path:
        """A log directory as a crash leaves it, to be scanned from its start."""
        partition = root / damage.PARTITION
        partition.mkdir(parents=True)
        (partition / "partition.metadata").write_text(TOPIC_ID)
        (root / "meta.properties").write_text(PROPERTIES)
        time = damage.Header().timestamp
        for base, batches in self.segments:
            made = []
            for first, count, size in batches:
                time += 7
                records = [damage.record(number, value=b"v" * size) for number in range(count)]
                made.append(damage.batch(first, records, damage.Header(timestamp=time)))
            (partition / f"{base:020d}.log").write_bytes(b"".join(made))
            for kind in ("index", "timeindex"):
                (partition / f"{base:020d}.{kind}").write_bytes(b"")
        return root

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """As `dataclasses.asdict` and JSON have it."""
        segments = tuple((base, tuple(tuple(batch) for batch in batches)) for base, batches in value["segments"])
        return cls(segments, value["index_interval_bytes"])

    @classmethod
    def of(cls, base: int, *firsts: int, interval: int = 4096) -> Sequence:
        """One segment, batches of one record."""
        return cls(((base, tuple((first, 1, 20) for first in firsts)),), interval)


STORIES = {
    "a gap, a copy": Sequence.of(50, 70, 70, 80),
    "gaps, a copy at the end": Sequence.of(0, 0, 100, 250, 400, 400),
    "gaps, a copy at the end, every batch indexed": Sequence.of(0, 0, 100, 250, 400, 400, interval=0),
    "a copy of all": Sequence.of(0, 0, 1, 2, 3, 0, 1, 2, 3),
    "a copy of all, then more": Sequence.of(0, 0, 1, 2, 0, 1, 2, 3, 4),
    "an older batch in the middle": Sequence.of(0, 0, 100, 50, 150),
    "an older batch at the end": Sequence.of(0, 0, 100, 50),
    "one runs ahead and the rest goes on": Sequence.of(0, 0, 1, 2, 1000003, 4, 5, 6),
    "one runs ahead and is overtaken": Sequence.of(0, 0, 5, 2, 6),
    "an older segment": Sequence(((0, ((0, 1, 9), (300, 1, 9))), (200, ((200, 1, 9), (201, 1, 9))))),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What Kafka made of a sequence: `kept` are batches of each segment, by base offset; None if not stable."""

    kept: dict[int, int] | None
    log_end_offset: int = -1
    is_indexed_above: bool = False
    """an index of the active segment has an entry at or above the log's end, so that the next one is not accepted"""

    @classmethod
    def of(cls, root: Path, log_end_offset: int) -> Self:
        """From a log directory that Kafka has loaded and closed."""
        kept = {int(log.stem): len(damage.walk(log.read_bytes())) for log in logs_of(root)}
        active = logs_of(root)[-1]
        keys = [relative for relative, _ in struct.iter_unpack(">ii", active.with_suffix(".index").read_bytes())]
        keys += [relative for _, relative in struct.iter_unpack(">qi", active.with_suffix(".timeindex").read_bytes())]
        return cls(kept, log_end_offset, any(int(active.stem) + key >= log_end_offset for key in keys))

    def judge(self, given: dict[int, list[bytes]], ours: dict[int, list[bytes]], counts: Counter[str]) -> str:
        """What is wrong with what we left of a directory, or nothing."""
        if self.kept is None:
            counts["Kafka is not stable"] += 1
            return ""
        there = Counter(each for base, count in self.kept.items() for each in given.get(base, [])[:count])
        hidden = Counter(each for each in there.elements() if damage.last_offset(each) >= self.log_end_offset)
        lost = there - Counter(each for found in ours.values() for each in found)
        if not hidden:
            counts["Kafka reaches all it keeps"] += 1
            return f"Kafka keeps {offsets(there)}, we lost {offsets(lost)}" if lost else ""
        if self.is_indexed_above:
            counts["Kafka could not append to what it keeps"] += 1
            return ""
        counts["Kafka keeps what lies above its log's end"] += 1
        if sum(map(len, lost.elements())) <= sum(map(len, hidden.elements())):
            return ""
        counts[MORE_THAN_HIDDEN] += 1
        return ""


MORE_THAN_HIDDEN = "we lose more than Kafka hides"
"""of what Kafka keeps: ending the log at its highest offset takes more than Kafka's own end does"""


def logs_of(root: Path) -> list[Path]:
    return sorted((root / damage.PARTITION).glob("*.log"))


def batches_of(root: Path) -> dict[int, list[bytes]]:
    """Every batch of the partition's logs, by the segment's base offset."""
    found = {}
    for log in logs_of(root):
        data = log.read_bytes()
        found[int(log.stem)] = [data[at : at + size] for at, size in damage.walk(data)]
    return found


def offsets(found: Counter[bytes]) -> list[int]:
    return sorted(damage.get(each, "base_offset") for each in found.elements())


def scanned_again(root: Path, params: dict[str, Any], kafka: KafkaOracle) -> dict[str, Any]:
    """Kafka's next start on a copy, with everything to be scanned."""
    copy = root.with_name(root.name + "-again")
    shutil.copytree(root, copy)
    (copy / damage.RECOVERY_POINT).unlink(missing_ok=True)
    for left in copy.rglob("*.deleted"):
        left.unlink()
    try:
        return kafka.check(copy, {**params, **UNCLEAN})
    finally:
        shutil.rmtree(copy)


def answer(sequence: Sequence, root: Path, kafka: KafkaOracle) -> Answer:
    """What Kafka makes of a log directory, in place."""
    result = kafka.recover(root, sequence.params)
    if result["outcome"] != "loaded" or not scanned_again(root, sequence.params, kafka)["accepted"]:
        return Answer(None)
    return Answer.of(root, result["partitions"][damage.PARTITION]["log_end_offset"])


def recorded() -> Iterator[tuple[Sequence, Answer]]:
    """Sequences with what Kafka made of them."""
    for line in RECORDED.read_text().splitlines():
        value = json.loads(line)
        kept = value["kept"] if value["kept"] is None else {int(base): count for base, count in value["kept"].items()}
        yield Sequence.from_json(value), Answer(kept, value["log_end_offset"], value["is_indexed_above"])


def drawn(seed: int, number: int) -> Sequence:
    """One of a campaign."""
    rng = random.Random(f"{seed}/{number}")
    strange = rng.choice([0.1, 0.3, 0.6])
    base = rng.choice([0, 0, 50])
    end = base + rng.choice([0, 0, 20])
    segments = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        batches: list[tuple[int, int, int]] = []
        for _ in range(rng.randint(1, 9)):
            new = [(end, rng.choice([1, 1, 2, 5]), rng.choice([1, 20, 90, 300]))]
            if rng.random() < strange:
                new = _strange(rng, base, end, batches, new[0])
            batches += new
            end = max([end, *(first + count for first, count, _ in new)]) if rng.random() < 0.8 else end
        segments.append((base, tuple(batches)))
        highest = max(first + count for first, count, _ in batches)
        base = max(base + 1, rng.choice([highest, highest, end, highest + 9]))
        end = max(base, end)
    return Sequence(tuple(segments), rng.choice([0, 64, 300, 4096]))


def _strange(
    rng: random.Random, base: int, end: int, before: list[tuple[int, int, int]], new: tuple[int, int, int]
) -> list[tuple[int, int, int]]:
    _, count, size = new
    kind = rng.choice(["gap", "gap", "twice", "stretch", "older", "ahead", "overlap"])
    if kind == "gap" or not before:
        return [(end + rng.choice([1, 7, 150]), count, size)]
    if kind == "twice":
        return [before[-1]]
    if kind == "stretch":
        return before[-rng.randint(1, len(before)) :]
    if kind == "older":
        return [(rng.randint(base, max(base, end - 1)), count, size)]
    if kind == "overlap":
        return [(max(base, end - 1), count + 1, size)]
    ahead = rng.choice([3, 40, 1000])
    return [(end + ahead, count, size), (end + count, 1, size)]
