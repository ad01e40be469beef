"""Random histories of a partition, written by Kafka's append path, and random damage to them: cases to compare.

A ``History`` is a kind and a seed; its script (see ``Generate.java``) follows from both. ``History.tree`` gives the two
log directories that it leaves, made once and cached: ``crash`` (copied while the log was open) and ``clean`` (after an
orderly close). A ``Case`` is a history, a form, settings and damage; all of it is JSON, so a failing case can be kept,
and ``Case.shrink`` reduces its damage to what matters.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from testkit.kafka import kafka_jars
from testkit.made import damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testkit.kafka.kafka_oracle import KafkaOracle

Op: TypeAlias = dict[str, Any]
T0 = 1_700_000_000_000
# How every log is written, and (PARAMS) how every recovery is asked for.
CONFIG = {"segment.bytes": 2600, "segment.index.bytes": 1536, "index.interval.bytes": 256, "max.message.bytes": 1048588}
PARAMS = {"segment.index.bytes": 1536, "index.interval.bytes": 256, "segment.bytes": 4096, "now_ms": T0 + 100_000}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WORDS = ("alpha", "bravo", "carbon", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima")
CHECKPOINTS = (damage.RECOVERY_POINT, damage.LOG_START, "replication-offset-checkpoint")
FORMS = ("crash", "clean", "unclean")
GENERATING_VERSION = "4.1.0"
# Histories of one kind in one campaign; more would be made once and used hardly ever.
VARIANTS = 8


def _b64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


class Script:
    """Collects the ops of one history; keeps time stamps, sequences and the leader epoch."""

    def __init__(self, rng: random.Random, **config: object) -> None:
        self.rng = rng
        self.ops: list[Op] = []
        self.timestamp = T0
        self.leader_epoch = 0
        self.config: dict[str, object] = {**CONFIG, **{k.replace("_", "."): v for k, v in config.items()}}
        self._sequences: dict[tuple[int, int], int] = {}

    def value(self, lowest: int = 20, highest: int = 90) -> bytes:
        length, text = self.rng.randint(lowest, highest), ""
        while len(text) < length:
            text += self.rng.choice(WORDS) + " "
        return text[:length].encode()

    def records(self, count: int, keys: list[bytes | None] | None = None, *, odd: bool = False) -> list[Op]:
        """Records with words as values; ``odd`` ones have headers and null or empty keys and values."""
        made = []
        for _ in range(count):
            self.timestamp += self.rng.randint(-3, 40)
            key = self.rng.choice(keys) if keys else None
            record: Op = {"ts": self.timestamp, "k": _b64(key), "v": _b64(self.value())}
            if odd:
                values = [None, b"", b"x", b"\xff\x00"]
                headers = [[f"h{i}", _b64(self.rng.choice(values))] for i in range(self.rng.randint(0, 3))]
                odd_value = self.rng.choice([None, "", record["v"], record["v"]])
                record |= {"h": headers, "k": _b64(self.rng.choice([None, b"", b"key"])), "v": odd_value}
            made.append(record)
        return made

    def append(self, records: list[Op], producer: tuple[int, int] | None = None, **more: object) -> Script:
        op: Op = {"op": "append", "records": records, "leader_epoch": self.leader_epoch, **more}
        if producer is not None:
            sequence = self._sequences.get(producer, 0)
            op |= {"pid": producer[0], "epoch": producer[1], "seq": sequence}
            self._sequences[producer] = sequence + len(records)
        self.ops.append(op)
        return self

    def some(self, most: int = 4, **more: Any) -> Script:
        return self.append(self.records(self.rng.randint(1, most)), **more)

    def marker(self, producer: tuple[int, int], *, commit: bool) -> Script:
        self.timestamp += 1
        kind, ids = "COMMIT" if commit else "ABORT", {"pid": producer[0], "epoch": producer[1]}
        more = {"coord_epoch": 3, "leader_epoch": self.leader_epoch, "ts": self.timestamp}
        self.ops.append({"op": "marker", "type": kind, **ids, **more})
        return self

    def op(self, name: str, **fields: object) -> Script:
        self.ops.append({"op": name, **fields})
        return self


def _plain(rng: random.Random) -> Script:
    script = Script(rng)
    for i in range(34):
        if i in (9, 17, 28):
            script.leader_epoch += rng.randint(1, 3)
        script.some()
    return script


def _single(rng: random.Random) -> Script:
    script = Script(rng, segment_bytes=1 << 20)
    for i in range(14):
        if i == 8:
            script.leader_epoch = 4
        script.some(3)
    return script


def _codec(name: str) -> Callable[[random.Random], Script]:
    def history(rng: random.Random) -> Script:
        script = Script(rng, segment_bytes=2000)
        for i in range(18):
            if i == 10:
                script.leader_epoch = 2
            script.append(script.records(rng.randint(4, 12), odd=i % 5 == 4), codec=name)
        return script

    return history


def _idempotent(rng: random.Random) -> Script:
    script = Script(rng)
    producers = [(4000 + i, rng.randint(0, 3)) for i in range(3)]
    for i in range(36):
        if i == 20:
            producers[0] = (producers[0][0], producers[0][1] + 1)
            script.leader_epoch += 1
        script.some(3, producer=rng.choice(producers))
        if i % 6 == 5:
            script.some(1)
    return script


def _transactions(script: Script, rounds: int, producers: list[tuple[int, int]]) -> Script:
    """Interleaved transactions; one is left open."""
    rng = script.rng
    open_: set[tuple[int, int]] = set()
    for i in range(rounds):
        producer = rng.choice(producers)
        if producer in open_ and rng.random() < 0.35 and i < rounds - 2:
            script.marker(producer, commit=rng.random() < 0.35)
            open_.discard(producer)
        else:
            script.some(2, producer=producer, txn=True, codec=rng.choice(["none", "none", "lz4"]))
            open_.add(producer)
        if i == rounds // 2:
            script.leader_epoch += 2
        if i % 9 == 8:
            script.some(1)
    if not open_:
        script.some(1, producer=producers[0], txn=True)
    return script


def _txn(rng: random.Random) -> Script:
    return _transactions(Script(rng, segment_bytes=1900), 40, [(7001, 1), (7002, 0), (7003, 5)])


def _append_time(rng: random.Random) -> Script:
    script, now = Script(rng, message_timestamp_type="LogAppendTime"), T0
    for _ in range(24):
        now += rng.randint(0, 90)
        script.some(now_ms=now, codec=rng.choice(["none", "gzip"]))
    return script


def _legacy(magic: int) -> Callable[[random.Random], Script]:
    def history(rng: random.Random) -> Script:
        script = Script(rng)
        for i in range(30):
            codec = "none" if i % 3 else rng.choice(["gzip", "snappy", "lz4"])
            script.append(script.records(rng.randint(1, 3), [None, b"k1", b"k2"]), magic=magic, codec=codec)
        return script

    return history


def _mixed(rng: random.Random) -> Script:
    script = Script(rng, segment_bytes=3000)
    for i in range(36):
        magic = 0 if i < 9 else 1 if i < 22 else 2
        if magic == 2:
            script.leader_epoch = 1 + (i > 30)
        script.append(script.records(rng.randint(1, 3), [b"a", None]), magic=magic, codec=rng.choice(["none", "gzip"]))
    return script


def _follower(rng: random.Random) -> Script:
    """Fetched batches, with gaps as a compacted leader has them."""
    script, offset = Script(rng), 0
    for i in range(14):
        batches: list[Op] = []
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.25:
                offset += rng.randint(1, 9)
            records = script.records(rng.randint(1, 3))
            codec = rng.choice(["none", "zstd", "none"])
            batches.append({"records": records, "base": offset, "leader_epoch": script.leader_epoch, "codec": codec})
            offset += len(records)
        fetched = {"batches": batches, "leader_epoch": script.leader_epoch, "base": batches[0]["base"]}
        script.op("append", role="follower", **fetched)
        if i in (4, 9):
            script.leader_epoch += 1
    return script


def _compacted(rng: random.Random) -> Script:
    script = Script(rng, segment_bytes=1700, cleanup_policy="compact", delete_retention_ms=1000)
    keys: list[bytes | None] = [b"k%d" % i for i in range(30)]
    transactional = (5100, 0)
    for i in range(30):
        script.append(script.records(rng.randint(2, 5), keys), producer=None if i % 4 else (5000, 0))
        if i % 7 == 3:
            tombstone, other = script.records(2, keys)
            script.append([{**tombstone, "v": None}, other])
        if i % 8 == 6:
            script.append(script.records(1, keys), producer=transactional, txn=True)
            script.marker(transactional, commit=i % 16 != 6)
    script.op("clean", now_ms=T0 + 5000)
    for _ in range(8):
        script.append(script.records(2, keys))
    return script.op("clean", now_ms=T0 + 900_000).append(script.records(3, keys))


def _log_start(rng: random.Random) -> Script:
    script = _plain(rng).op("delete_before", offset=rng.randint(30, 45), retention=True)
    return script.some(2).some(1)


def _empty(rng: random.Random) -> Script:
    return Script(rng)


def _time_jumps(rng: random.Random) -> Script:
    """Time stamps that jump back and forth, so that time index entries lag behind."""
    script = Script(rng, segment_bytes=3500)
    for _ in range(40):
        script.timestamp = T0 + rng.randint(0, 5000)
        script.some(1, codec=rng.choice(["none", "none", "snappy"]))
    return script


def _restart(rng: random.Random) -> Script:
    script = Script(rng, segment_bytes=4000)
    for i in range(30):
        script.some(3, producer=(6000 + i % 2, 0))
        if i in (5, 11, 20):
            script.op("reopen")
    return script


def _truncated(rng: random.Random) -> Script:
    """A follower that cut back to another leader's history."""
    script = _plain(rng).op("truncate", offset=rng.randint(20, 60))
    script.leader_epoch += 2
    return script.some().some().some()


def _anything(rng: random.Random) -> Script:
    """Everything in one log, in random order."""
    script = Script(
        rng, segment_bytes=rng.choice([900, 1700, 2600, 6000]), index_interval_bytes=rng.choice([0, 100, 256])
    )
    producers = [(9000 + i, rng.randint(0, 2)) for i in range(3)]
    open_: set[tuple[int, int]] = set()
    for _ in range(rng.randint(5, 45)):
        choice = rng.random()
        producer = rng.choice(producers)
        if choice < 0.08:
            script.leader_epoch += rng.randint(1, 2)
        elif choice < 0.12:
            script.op("roll")
        elif choice < 0.15:
            script.op("flush")
        elif producer in open_ and choice < 0.5:
            script.marker(producer, commit=rng.random() < 0.5)
            open_.discard(producer)
        elif choice < 0.6:
            script.some(3, producer=producer, txn=True, codec=rng.choice(CODECS))
            open_.add(producer)
        else:
            script.append(script.records(rng.randint(1, 6), odd=rng.random() < 0.3), codec=rng.choice(CODECS))
    return script


KINDS: dict[str, Callable[[random.Random], Script]] = {
    "plain": _plain,
    "single": _single,
    **{codec: _codec(codec) for codec in CODECS[1:]},
    "idempotent": _idempotent,
    "txn": _txn,
    "append_time": _append_time,
    "v0": _legacy(0),
    "v1": _legacy(1),
    "mixed": _mixed,
    "follower": _follower,
    "compacted": _compacted,
    "log_start": _log_start,
    "empty": _empty,
    "time_jumps": _time_jumps,
    "restart": _restart,
    "truncated": _truncated,
    "anything": _anything,
}
SETTINGS_OF_KIND = {
    "compacted": {"cleanup.policy": "compact"},
    "append_time": {"message.timestamp.type": "LogAppendTime"},
}


@dataclass(frozen=True, slots=True)
class History:
    """One way a partition came about: kind and seed."""

    kind: str
    seed: str

    def script(self) -> Op:
        rng = random.Random(f"{self.seed}/{self.kind}")
        topic_id = base64.urlsafe_b64encode(b"\x11" + rng.randbytes(15)).decode().rstrip("=")
        made = KINDS[self.kind](rng)
        return {"now_ms": T0, "config": made.config, "topic_id": topic_id, "ops": made.ops}

    def tree(self, kafka: KafkaOracle) -> Path:
        """A directory with the log directories ``crash`` and ``clean``; made at the first call, then cached."""
        script = self.script()
        digest = hashlib.sha256(json.dumps([kafka.version, script]).encode()).hexdigest()[:24]
        target = kafka_jars.cache_directory() / "histories" / f"{self.kind}-{digest}"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
            _write(script, work, kafka)
            try:
                work.rename(target)
            except OSError:  # another process was first
                shutil.rmtree(work)
        return target


def _write(script: Op, work: Path, kafka: KafkaOracle) -> None:
    crash, clean = work / "crash", work / "clean"
    ends: list[Op] = [{"op": "mark", "name": "crash"}, {"op": "copy", "to": str(crash / "t-0")}, {"op": "close"}]
    made = kafka.generate({**script, "dir": str(clean / "t-0"), "ops": script["ops"] + ends})
    end, recovery_point, log_start = made["marks"]["crash"]
    for root, point in ((crash, recovery_point), (clean, made["log_end_offset"])):
        for left in (root / "t-0").glob("*.deleted"):
            left.unlink()
        tree = damage.Tree(root).recovery_point(point)
        tree.checkpoint(damage.LOG_START, [("t", 0, log_start)] if log_start > made["segments"][0][0] else [])
        tree.checkpoint("replication-offset-checkpoint", [("t", 0, end)])
        ids = "cluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
        tree.do("create", "meta.properties", text="#\nversion=1\n" + ids)
        if not tree.exists("t-0/partition.metadata"):
            tree.do("create", "t-0/partition.metadata", text=f"version: 0\ntopic_id: {script['topic_id']}")
    damage.Tree(clean).do("create", damage.MARKER, text='{"version":0,"brokerEpoch":42}')


@dataclass(frozen=True, slots=True)
class Case:
    """A damaged log directory, reproducible from this alone."""

    history: History
    form: str = "crash"
    beside: History | None = None
    """The history of a second partition, u-1, which is left undamaged.

    How far a refused start had come with two partitions, and by which exception it was refused, depends on the order in
    which the file system lists them: then only the refusal itself is comparable.
    """
    params: dict[str, object] = field(default_factory=lambda: dict(PARAMS))
    ops: tuple[Op, ...] = ()

    @property
    def has_several(self) -> bool:
        """There is more than one partition directory."""
        return self.beside is not None or any(
            (op["op"] == "copy" and op["path"] == damage.PARTITION) or (op["op"] == "mkdir" and "/" not in op["path"])
            for op in self.ops
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        histories = [None if found is None else History(**found) for found in (fields["history"], fields["beside"])]
        assert histories[0] is not None
        return cls(histories[0], fields["form"], histories[1], fields["params"], tuple(fields["ops"]))

    def build(self, directory: Path, kafka: KafkaOracle) -> Path:
        """Write the damaged log directory into a path that does not exist yet. Raises damage.DamageError."""
        self.build_undamaged(directory, kafka)
        damage.apply(directory, self.ops)
        return directory

    def build_undamaged(self, directory: Path, kafka: KafkaOracle) -> None:
        half = "crash" if self.form == "crash" else "clean"
        shutil.copytree(self.history.tree(kafka) / half, directory)
        if self.form == "unclean":
            (directory / damage.MARKER).unlink()
        if self.beside is not None:
            _put_beside(self.beside.tree(kafka) / half, directory)

    def shrink(self, predicate: Callable[[Case], bool]) -> Case:
        """The case with as few operations as keep the predicate true, which holds for this case."""
        return replace(self, ops=tuple(damage.shrink(self.ops, lambda ops: predicate(replace(self, ops=tuple(ops))))))


def _put_beside(source: Path, directory: Path) -> None:
    """Add the partition t-0 of another log directory as u-1, with its lines in the checkpoints."""
    shutil.copytree(source / damage.PARTITION, directory / "u-1")
    for name in CHECKPOINTS:
        own, other = ((root / name).read_text().splitlines()[2:] for root in (directory, source))
        lines = own + [line.replace("t 0 ", "u 1 ") for line in other]
        (directory / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def random_case(seed: int, number: int, directory: Path, kafka: KafkaOracle) -> Case:
    """Case ``number`` of the campaign ``seed``; its damaged log directory is written to ``directory``."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choice([*KINDS, "txn", "anything", "anything"])
    history = History(kind, f"{seed}/{rng.randrange(VARIANTS)}")
    form = rng.choice(FORMS)
    beside = History(rng.choice(list(KINDS)), f"{seed}/{rng.randrange(VARIANTS)}") if rng.random() < 0.2 else None
    params: dict[str, object] = {**PARAMS, **SETTINGS_OF_KIND.get(kind, {}), **_settings(rng)}
    undamaged = Case(history, form, beside, params)
    undamaged.build_undamaged(directory, kafka)
    return replace(undamaged, ops=tuple(damage.random_damage(directory, rng)))


def _settings(rng: random.Random) -> dict[str, object]:
    """Mostly none; sometimes another clock (producers expire) or other index settings."""
    choice = rng.random()
    if choice < 0.06:
        return {"now_ms": T0 + 90_000_000}
    if choice < 0.12:
        return {"index.interval.bytes": rng.choice([0, 64, 4096])}
    if choice < 0.15:
        return {"segment.index.bytes": rng.choice([96, 10485760])}
    return {}


def campaign(seed: int, count: int, directory: Path, kafka: KafkaOracle) -> Iterator[tuple[Case, Path]]:
    """``count`` random cases one after the other; each directory is removed when the next one is asked for."""
    for number in range(count):
        root = directory / f"case-{number}"
        case = random_case(seed, number, root, kafka)
        try:
            yield case, root
        finally:
            shutil.rmtree(root)


LONG_SEED = 4100


def chosen_seed(default: int = LONG_SEED) -> int:
    """KAFKALOG_INTEROP_SEED: a number, or `random`; the same cases every time if it is not set."""
    given = os.environ.get("KAFKALOG_INTEROP_SEED") or str(default)
    return random.randrange(1 << 30) if given == "random" else int(given)
