"""A damage language for Kafka log directories.

A damage is a list of operations, each a JSON object ``{"op": ..., "path": ...}`` with a path inside the log directory;
``apply(root, ops)`` carries them out, always to the same bytes. ``Tree`` is a directory being damaged: it resolves
segments and batches, and records what was done. ``DAMAGES`` are the named kinds of damage, each choosing its place with
a random generator; ``random_damage`` draws from them.

Bytes:    flip {at, bit}  set_byte {at, value}  truncate {at}  zero {at, n}  garbage {at, n, seed}  insert {at, hex}
          splice {at, n, hex}  append {hex}  append_zero {n}  append_garbage {n, seed}  swap {a, n, b, m}
          copy_range {source, from, n, at}  translate {old, new}  reverse
Batches:  swap_batches {a, b}  duplicate {batch}  remove {batch}  set_field {batch, field, value}  fix_crc {batch}
          (a batch is named by its index in the .log)
Files:    delete  create {text | hex}  rename {to}  copy {to}  mkdir  rmtree  symlink {to}
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import crc32c as _crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Op: TypeAlias = dict[str, Any]
PARTITION = "t-0"
MARKER = ".kafka_cleanshutdown"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"

# ---------------------------------------------------------------- batches: name -> (position, struct format)
V2_FIELDS = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "partition_leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "records_count": (57, ">i"),
}
LEGACY_FIELDS = {
    "offset": (0, ">q"),
    "size": (8, ">i"),
    "crc": (12, ">I"),
    "magic": (16, ">b"),
    "attributes": (17, ">b"),
    "timestamp": (18, ">q"),
}
SMALLEST_BATCH = 26
FRAME = 12
MAGIC_AT = 16
V2_CRC_FROM = 21
LEGACY_CRC_FROM = 16


class DamageError(Exception):
    """An operation does not fit the directory: no such file, batch or field."""


def fields_of(batch: bytes) -> dict[str, tuple[int, str]]:
    return V2_FIELDS if batch[MAGIC_AT] == 2 else LEGACY_FIELDS


def get(batch: bytes, name: str) -> int:
    at, form = fields_of(batch)[name]
    return int(struct.unpack_from(form, batch, at)[0])


def put(batch: bytes, name: str, value: int) -> bytes:
    """The batch with one header field replaced; the value is cut to the field's width."""
    if name not in fields_of(batch):
        raise DamageError(f"a batch of magic {batch[MAGIC_AT]} has no field {name}")
    at, form = fields_of(batch)[name]
    size = struct.calcsize(form)
    copy = bytearray(batch)
    copy[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "big")
    return bytes(copy)


def with_crc(batch: bytes) -> bytes:
    """The batch with the CRC that fits its bytes."""
    if batch[MAGIC_AT] in (0, 1):
        return put(batch, "crc", zlib.crc32(batch[LEGACY_CRC_FROM:]))
    at, form = V2_FIELDS["crc"]
    return batch[:at] + struct.pack(form, _crc32c.crc32c(batch[V2_CRC_FROM:])) + batch[V2_CRC_FROM:]


def walk(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of each batch from the front, as far as the framing holds."""
    found, position = [], 0
    while position + MAGIC_AT + 1 <= len(data):
        size = FRAME + int(struct.unpack_from(">i", data, position + 8)[0])
        if size < SMALLEST_BATCH or position + size > len(data):
            break
        found.append((position, size))
        position += size
    return found


def last_offset(batch: bytes) -> int:
    if batch[MAGIC_AT] == 2:
        return get(batch, "base_offset") + get(batch, "last_offset_delta")
    return get(batch, "offset")


# ---------------------------------------------------------------- building
def varint(n: int) -> bytes:
    n = ((n << 1) ^ (n >> 63)) & ((1 << 64) - 1)
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def record(delta: int, *, ts: int = 0, key: bytes | None = None, value: bytes | None = b"v") -> bytes:
    body = b"\0" + varint(ts) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


@dataclass(frozen=True, slots=True)
class Header:
    """The header fields of a batch to be built that are not derived from its records."""

    leader_epoch: int = 0
    attributes: int = 0
    timestamp: int = 1_700_000_000_000
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


def batch(base: int, records: Sequence[bytes], header: Header | None = None) -> bytes:
    """A v2 batch with the right CRC."""
    h = header or Header()
    ids = (h.producer_id, h.producer_epoch, h.base_sequence)
    covered = struct.pack(">hiqq", h.attributes, len(records) - 1, h.timestamp, h.timestamp)
    covered += struct.pack(">qhii", *ids, len(records)) + b"".join(records)
    length = len(covered) + V2_CRC_FROM - FRAME
    return struct.pack(">qiibI", base, length, h.leader_epoch, 2, _crc32c.crc32c(covered)) + covered


def marker(base: int, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 3) -> bytes:
    """An end-of-transaction control batch."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch)
    header = Header(attributes=0x30, producer_id=producer_id, producer_epoch=producer_epoch)
    return batch(base, [record(0, key=key, value=value)], header)


def snapshot(entries: Iterable[tuple[int, int, int, int, int, int, int, int]]) -> bytes:
    """A producer snapshot file.

    An entry: producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, and the first
    offset of its open transaction.
    """
    rows = list(entries)
    body = struct.pack(">i", len(rows)) + b"".join(struct.pack(">qhiqiqiq", *row) for row in rows)
    return struct.pack(">hI", 1, _crc32c.crc32c(body)) + body


# ---------------------------------------------------------------- operations
def _garbage(n: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(n)


def _batch_at(data: bytes, index: int) -> tuple[int, int]:
    batches = walk(data)
    if not 0 <= index < len(batches):
        raise DamageError(f"no batch {index} among {len(batches)}")
    return batches[index]


def _splice(data: bytes, at: int, n: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + n :]


def _swap(data: bytes, a: int, n: int, b: int, m: int) -> bytes:
    """Exchange [a, a+n) and [b, b+m), which lie in that order."""
    return data[:a] + data[b : b + m] + data[a + n : b] + data[a : a + n] + data[b + m :]


def _flip(data: bytes, o: Op) -> bytes:
    if o["at"] >= len(data):
        raise DamageError(f"no byte {o['at']} among {len(data)}")
    return _splice(data, o["at"], 1, bytes([data[o["at"]] ^ 1 << o["bit"]]))


def _swap_batches(data: bytes, o: Op) -> bytes:
    first, second = sorted((_batch_at(data, o["a"]), _batch_at(data, o["b"])))
    return data if first == second else _swap(data, *first, *second)


def _set_field(data: bytes, o: Op) -> bytes:
    at, size = _batch_at(data, o["batch"])
    return _splice(data, at, size, put(data[at : at + size], o["field"], o["value"]))


def _fix_crc(data: bytes, o: Op) -> bytes:
    at, size = _batch_at(data, o["batch"])
    return _splice(data, at, size, with_crc(data[at : at + size]))


def _duplicate(data: bytes, o: Op) -> bytes:
    at, size = _batch_at(data, o["batch"])
    return data[: at + size] + data[at : at + size] + data[at + size :]


def _remove(data: bytes, o: Op) -> bytes:
    at, size = _batch_at(data, o["batch"])
    return _splice(data, at, size, b"")


def _overwrite(data: bytes, at: int, new: bytes) -> bytes:
    return _splice(data, at, len(new[: max(0, len(data) - at)]), new[: max(0, len(data) - at)])


BYTES: dict[str, Callable[[bytes, Op], bytes]] = {
    "flip": _flip,
    "set_byte": lambda d, o: _overwrite(d, o["at"], bytes([o["value"]])),
    "truncate": lambda d, o: d[: o["at"]],
    "zero": lambda d, o: _overwrite(d, o["at"], bytes(o["n"])),
    "garbage": lambda d, o: _overwrite(d, o["at"], _garbage(min(o["n"], max(0, len(d) - o["at"])), o["seed"])),
    "insert": lambda d, o: _splice(d, o["at"], 0, bytes.fromhex(o["hex"])),
    "splice": lambda d, o: _splice(d, o["at"], o["n"], bytes.fromhex(o.get("hex", ""))),
    "append": lambda d, o: d + bytes.fromhex(o["hex"]),
    "append_zero": lambda d, o: d + bytes(o["n"]),
    "append_garbage": lambda d, o: d + _garbage(o["n"], o["seed"]),
    "swap": lambda d, o: _swap(d, o["a"], o["n"], o["b"], o["m"]),
    "translate": lambda d, o: d.replace(bytes.fromhex(o["old"]), bytes.fromhex(o["new"])),
    "reverse": lambda d, _: d[::-1],
    "swap_batches": _swap_batches,
    "duplicate": _duplicate,
    "remove": _remove,
    "set_field": _set_field,
    "fix_crc": _fix_crc,
}


def _create(path: Path, o: Op) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes.fromhex(o["hex"]) if "hex" in o else o["text"].encode())


def _copy(path: Path, to: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, to)
    else:
        shutil.copyfile(path, to)


def apply_op(root: Path, o: Op) -> None:
    """Carry out one operation. Raises DamageError if it does not fit."""
    name, path = o["op"], root / o["path"]
    files: dict[str, Callable[[], object]] = {
        "delete": path.unlink,
        "create": lambda: _create(path, o),
        "rename": lambda: path.rename(root / o["to"]),
        "copy": lambda: _copy(path, root / o["to"]),
        "mkdir": lambda: path.mkdir(parents=True),
        "rmtree": lambda: shutil.rmtree(path),
        "symlink": lambda: path.symlink_to(o["to"]),
    }
    try:
        if name in files:
            files[name]()
        elif name == "copy_range":
            source = (root / o["source"]).read_bytes()[o["from"] : o["from"] + o["n"]]
            data = path.read_bytes()
            path.write_bytes(data[: o["at"]] + source + data[o["at"] + len(source) :])
        elif name in BYTES:
            path.write_bytes(BYTES[name](path.read_bytes(), o))
        else:
            raise DamageError(f"unknown operation {name}")
    except OSError as e:
        raise DamageError(f"{o}: {e}") from e


def apply(root: Path, ops: Iterable[Op]) -> None:
    for o in ops:
        apply_op(root, o)


def shrink(items: Sequence[Op], predicate: Callable[[list[Op]], bool]) -> list[Op]:
    """The operations that matter: as few as possible, and smaller ones, for which the predicate still holds.

    The predicate holds for the whole list. It is asked only; a DamageError in it counts as no.
    """

    def holds(candidate: list[Op]) -> bool:
        try:
            return predicate(candidate)
        except DamageError:
            return False

    kept = list(items)
    size = max(1, len(kept) // 2)
    while True:
        at, before = 0, len(kept)
        while at < len(kept):
            candidate = kept[:at] + kept[at + size :]
            if holds(candidate):
                kept = candidate
            else:
                at += size
        if size == 1 and len(kept) == before:
            break
        size = max(1, size // 2)
    for i, o in enumerate(kept):
        for smaller in _smaller(o):
            if holds([*kept[:i], smaller, *kept[i + 1 :]]):
                kept[i] = smaller
                break
    return kept


def _smaller(o: Op) -> Iterable[Op]:
    """Simpler variants of one operation, simplest first."""
    for n in sorted({1, o.get("n", 1) // 4, o.get("n", 1) // 2} - {0}):
        if n < o.get("n", 0) and o["op"] in ("zero", "garbage", "append_zero", "append_garbage"):
            yield {**o, "n": n}
    if o["op"] == "garbage":
        yield {"op": "zero", "path": o["path"], "at": o["at"], "n": o["n"]}
    if o["op"] == "append_garbage":
        yield {"op": "append_zero", "path": o["path"], "n": o["n"]}


# ---------------------------------------------------------------- a directory being damaged
class Tree:
    """A log directory with one partition; every change is carried out and recorded in ``ops``."""

    def __init__(self, root: Path, partition: str = PARTITION) -> None:
        self.root = root
        self.partition = partition
        self.ops: list[Op] = []

    def do(self, op: str, path: str, **arguments: Any) -> Tree:
        o = {"op": op, "path": path, **{k: v.hex() if isinstance(v, bytes) else v for k, v in arguments.items()}}
        apply_op(self.root, o)
        self.ops.append(o)
        return self

    def names(self, suffix: str = ".log") -> list[str]:
        return sorted(p.name for p in (self.root / self.partition).iterdir() if p.name.endswith(suffix) and p.is_file())

    def inside(self, name: str) -> str:
        return f"{self.partition}/{name}"

    def file(self, offset: int, extension: str = "log") -> str:
        return f"{self.partition}/{offset:020d}.{extension}"

    def bases(self) -> list[int]:
        """Base offsets of the segments that have the names which a broker gives them."""
        return [int(name[:20]) for name in self.names() if re.fullmatch(r"[0-9]{20}\.log", name)]

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def data(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def size(self, path: str) -> int:
        return (self.root / path).stat().st_size

    def batches(self, path: str) -> list[tuple[int, bytes]]:
        data = self.data(path)
        return [(at, data[at : at + n]) for at, n in walk(data)]

    def end_offset(self) -> int:
        """One past the last offset in the last segment that holds a batch; within reason if damage made it absurd."""
        for base in reversed(self.bases()):
            found = self.batches(self.file(base))
            if found:
                return min(max(0, last_offset(found[-1][1]) + 1), 1 << 40)
        return self.bases()[-1] if self.bases() else 0

    def checkpoint(self, name: str, entries: Sequence[Sequence[object]]) -> Tree:
        lines = "".join(" ".join(map(str, entry)) + "\n" for entry in entries)
        return self.do("create", name, text=f"0\n{len(entries)}\n{lines}")

    def recovery_point(self, offset: int) -> Tree:
        topic, number = self.partition.rsplit("-", 1)
        return self.checkpoint(RECOVERY_POINT, [(topic, number, offset)])

    def log_start(self, offset: int) -> Tree:
        topic, number = self.partition.rsplit("-", 1)
        return self.checkpoint(LOG_START, [(topic, number, offset)])

    def unclean(self) -> Tree:
        return self.do("delete", MARKER) if self.exists(MARKER) else self


# ---------------------------------------------------------------- named kinds of damage
Damage: TypeAlias = "Callable[[Tree, random.Random], object]"


def _log(tree: Tree, rng: random.Random) -> str:
    """A segment's .log; the active one as often as all others together."""
    bases = tree.bases()
    return tree.file(bases[-1] if rng.random() < 0.5 else rng.choice(bases)) if bases else ""


def _place(tree: Tree, path: str, rng: random.Random) -> int:
    """A position in a file, near a batch boundary or inside a batch header more often than a uniform choice."""
    size = tree.size(path)
    if not size:
        return 0
    batches = tree.batches(path) if path.endswith(".log") else []
    if batches and rng.random() < 0.6:
        at, b = rng.choice(batches)
        return at + rng.randrange(min(61, len(b)))
    return _within(size, rng)


def _within(size: int, rng: random.Random) -> int:
    if not size:
        raise DamageError("an empty file has no place to damage")
    return rng.randrange(size)


def _of(*suffixes: str) -> Callable[[Tree, random.Random], str]:
    def choose(tree: Tree, rng: random.Random) -> str:
        names = [name for suffix in suffixes for name in tree.names(suffix)]
        return tree.inside(rng.choice(names)) if names else ""

    return choose


def _batch_of(tree: Tree, path: str, rng: random.Random) -> int:
    count = len(tree.batches(path))
    return (count - 1 if rng.random() < 0.4 else rng.randrange(count)) if count else -1


def flip_bit(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path and tree.size(path):
        tree.do("flip", path, at=_place(tree, path, rng), bit=rng.randrange(8))


def set_byte(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path and tree.size(path):
        tree.do("set_byte", path, at=_place(tree, path, rng), value=rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF]))


def cut_tail(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        tree.do("truncate", path, at=_place(tree, path, rng))


def cut_at_batch(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path and tree.batches(path):
        tree.do("truncate", path, at=rng.choice(tree.batches(path))[0])


def zero_range(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        at = _place(tree, path, rng)
        tree.do("zero", path, at=at // 512 * 512 if rng.random() < 0.4 else at, n=rng.choice([1, 8, 60, 512]))


def noise_range(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        tree.do("garbage", path, at=_place(tree, path, rng), n=rng.randint(1, 90), seed=rng.randrange(1 << 30))


def insert_bytes(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        tree.do("insert", path, at=_place(tree, path, rng), hex=rng.randbytes(rng.randint(1, 20)))


def drop_bytes(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        tree.do("splice", path, at=_place(tree, path, rng), n=rng.randint(1, 40), hex="")


def zeros_behind(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        tree.do("append_zero", path, n=rng.choice([1, 11, 12, 16, 17, 18, 61, 300, 1700]))


def noise_behind(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path:
        tree.do("append_garbage", path, n=rng.choice([1, 12, 17, 18, 61, 200]), seed=rng.randrange(1 << 30))


def swap_two_batches(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    count = len(tree.batches(path)) if path else 0
    if count > 1:
        a, b = rng.sample(range(count), 2)
        tree.do("swap_batches", path, a=a, b=b)


def duplicate_batch(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path and tree.batches(path):
        tree.do("duplicate", path, batch=_batch_of(tree, path, rng))


def remove_batch(tree: Tree, rng: random.Random) -> None:
    path = _log(tree, rng)
    if path and tree.batches(path):
        tree.do("remove", path, batch=_batch_of(tree, path, rng))


def batch_from_elsewhere(tree: Tree, rng: random.Random) -> None:
    """A misdirected write: a batch of one segment lands after another."""
    source, target = _log(tree, rng), _log(tree, rng)
    if source and tree.batches(source):
        tree.do("append", target, hex=rng.choice(tree.batches(source))[1])


def _odd_value(field: str, old: int, rng: random.Random) -> int:
    near = [old + 1, old - 1, old + rng.randint(2, 50), old - rng.randint(2, 50)]
    far = [0, -1, 1, (1 << 31) - 1, -(1 << 31), old + (1 << 31), old ^ 1 << rng.randrange(31)]
    if field in ("magic", "attributes"):
        return rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 48, 64, -1, old ^ 1 << rng.randrange(7)])
    return rng.choice(near if rng.random() < 0.6 else far)


def header_field(tree: Tree, rng: random.Random, *, fix: bool = False) -> None:
    path = _log(tree, rng)
    index = _batch_of(tree, path, rng) if path else -1
    if index < 0:
        return
    b = tree.batches(path)[index][1]
    if len(b) < 61 and b[MAGIC_AT] == 2:
        return
    fields = [name for name, (at, form) in fields_of(b).items() if at + struct.calcsize(form) <= len(b)]
    field = rng.choice([name for name in fields if not (fix and name == "crc")])
    if b[MAGIC_AT] == 0 and field == "timestamp":
        return
    tree.do("set_field", path, batch=index, field=field, value=_odd_value(field, get(b, field), rng))
    if fix and index < len(tree.batches(path)):
        tree.do("fix_crc", path, batch=index)


def header_field_with_crc(tree: Tree, rng: random.Random) -> None:
    header_field(tree, rng, fix=True)


def more_batches(tree: Tree, rng: random.Random) -> None:
    """Valid batches after the end: continuing, after a gap, or stale."""
    bases = tree.bases()
    if not bases:
        return
    base = tree.end_offset() + rng.choice([0, 0, 0, 1, 1000, -1, -5])
    header = Header(leader_epoch=rng.choice([0, 1, 5]), timestamp=1_700_000_000_000 + rng.randint(-9000, 90000))
    records = [record(i, value=b"synthetic") for i in range(rng.randint(1, 4))]
    tree.do("append", tree.file(bases[-1]), hex=batch(max(0, base), records, header))


def more_markers(tree: Tree, rng: random.Random) -> None:
    """An end-of-transaction marker for a producer that may or may not be known."""
    bases = tree.bases()
    if bases:
        ids = [get(b, "producer_id") for _, b in tree.batches(tree.file(bases[-1])) if b[MAGIC_AT] == 2]
        made = marker(tree.end_offset(), rng.choice([*ids, 7001, 99]), rng.choice([0, 1, 5]), commit=rng.random() < 0.5)
        tree.do("append", tree.file(bases[-1]), hex=made)


def index_damage(tree: Tree, rng: random.Random) -> None:
    path = _of(".index", ".timeindex", ".txnindex")(tree, rng)
    if not path:
        return
    size = tree.size(path)
    entry = 8 if path.endswith(".index") else 12 if path.endswith(".timeindex") else 34
    kind = rng.randrange(8)
    if kind == 0 or not size:
        tree.do("delete", path)
    elif kind == 1:
        tree.do("truncate", path, at=_within(size, rng))
    elif kind == 2:
        tree.do("truncate", path, at=size // entry * entry - entry * rng.randint(0, 2))
    elif kind == 3:
        tree.do("garbage", path, at=_within(size, rng), n=rng.randint(1, 40), seed=rng.randrange(1 << 30))
    elif kind == 4:
        tree.do("zero", path, at=_within(size, rng), n=rng.choice([1, entry, 300]))
    elif kind == 5:
        tree.do("flip", path, at=_within(min(size, entry * 12), rng), bit=rng.randrange(8))
    elif kind == 6:
        tree.do("append_zero", path, n=rng.choice([1, entry, 5 * entry]))
    else:
        tree.do("truncate", path, at=0)


def index_swapped(tree: Tree, rng: random.Random) -> None:
    """The index of one segment holds another's bytes."""
    suffix = rng.choice([".index", ".timeindex"])
    names = tree.names(suffix)
    if len(names) > 1:
        a, b = rng.sample(names, 2)
        tree.do("delete", tree.inside(a)).do("copy", tree.inside(b), to=tree.inside(a))


def snapshot_damage(tree: Tree, rng: random.Random) -> None:
    path = _of(".snapshot")(tree, rng)
    if not path:
        return
    size, kind = tree.size(path), rng.randrange(6)
    if kind == 0 or not size:
        tree.do("delete", path)
    elif kind == 1:
        tree.do("truncate", path, at=_within(size, rng))
    elif kind == 2:
        tree.do("flip", path, at=_within(size, rng), bit=rng.randrange(8))
    elif kind == 3:
        tree.do("create", path, hex=snapshot([(7001, 1, 3, 5, 3, 1_700_000_000_000, 3, -1)]))
    elif kind == 4:
        for name in tree.names(".snapshot"):
            tree.do("delete", tree.inside(name))
    else:
        offset = rng.randint(0, tree.end_offset() + 3)
        tree.do("copy", path, to=tree.file(offset, "snapshot"))


def epoch_damage(tree: Tree, rng: random.Random) -> None:
    path = tree.inside("leader-epoch-checkpoint")
    if not tree.exists(path):
        return
    size, end, kind = tree.size(path), tree.end_offset(), rng.randrange(6)
    entries: list[tuple[int, int]] = [
        (rng.randint(0, 4) + i, rng.randint(0, end + 2)) for i in range(rng.randint(0, 3))
    ]
    if kind == 0:
        tree.do("delete", path)
    elif kind == 1:
        tree.do("truncate", path, at=rng.randrange(size + 1))
    elif kind == 2:
        tree.do("garbage", path, at=_within(size, rng), n=rng.randint(1, 6), seed=rng.randrange(1 << 30))
    elif kind == 3:
        tree.checkpoint(path, [(e, o) for o, e in sorted((o, e) for e, o in entries)])
    elif kind == 4:
        tree.checkpoint(path, entries)
    else:
        tree.do("append", path, hex=rng.choice([b"\n", b"5 9\n", b"\0\0\0", b"x y\n"]))


def checkpoint_damage(tree: Tree, rng: random.Random) -> None:
    path, kind, end = rng.choice([RECOVERY_POINT, LOG_START]), rng.randrange(6), tree.end_offset()
    if kind == 0 and tree.exists(path):
        tree.do("delete", path)
    elif kind == 1 and tree.exists(path):
        tree.do("truncate", path, at=rng.randrange(tree.size(path) + 1))
    elif kind == 2 and tree.exists(path):
        tree.do("set_byte", path, at=_within(tree.size(path), rng), value=rng.choice(b"\0 9x-\n"))
    elif path == RECOVERY_POINT:
        tree.recovery_point(rng.choice([0, end, rng.randint(0, end + 1), end + 1000, -1]))
    else:
        tree.log_start(rng.choice([0, rng.randint(0, end), end, end + 1]))


def scan_everything(tree: Tree, _: random.Random) -> None:
    tree.unclean().recovery_point(0)


def marker_toggled(tree: Tree, _: random.Random) -> None:
    if tree.exists(MARKER):
        tree.do("delete", MARKER)
    else:
        tree.do("create", MARKER, text='{"version":0,"brokerEpoch":42}')


def missing_segment(tree: Tree, rng: random.Random) -> None:
    bases = tree.bases()
    if bases:
        base = rng.choice(bases)
        extensions = ["log"] if rng.random() < 0.5 else ["log", "index", "timeindex", "txnindex", "snapshot"]
        for extension in extensions:
            if tree.exists(tree.file(base, extension)):
                tree.do("delete", tree.file(base, extension))


def segment_left_over(tree: Tree, rng: random.Random) -> None:
    """What an interrupted cleaning, split or deletion leaves: .swap, .cleaned, .deleted."""
    bases = tree.bases()
    if not bases:
        return
    base, suffix = rng.choice(bases), rng.choice(["swap", "cleaned", "deleted", "swap"])
    for extension in ("log", "index", "timeindex"):
        if tree.exists(tree.file(base, extension)) and rng.random() < 0.85:
            how = "copy" if rng.random() < 0.8 else "rename"
            tree.do(how, tree.file(base, extension), to=tree.file(base, f"{extension}.{suffix}"))


def foreign_file(tree: Tree, rng: random.Random) -> None:
    name = rng.choice(
        ["notes.txt", "core.12345", f"{7:020d}.log.bak", f"{99:020d}.index", f"{3:020d}.timeindex", "lost+found"]
    )
    if not tree.exists(tree.inside(name)):
        tree.do("create", tree.inside(name), text="not ours\n")


def orphan_segment(tree: Tree, rng: random.Random) -> None:
    """A segment under a name that lies elsewhere."""
    bases = tree.bases()
    if bases:
        source, offset = (
            tree.file(rng.choice(bases)),
            rng.choice([0, tree.end_offset(), rng.randint(0, tree.end_offset() + 50)]),
        )
        if not tree.exists(tree.file(offset)):
            tree.do(rng.choice(["copy", "rename"]), source, to=tree.file(offset))


def partition_metadata(tree: Tree, rng: random.Random) -> None:
    path = tree.inside("partition.metadata")
    if not tree.exists(path):
        return
    if rng.random() < 0.4:
        tree.do("delete", path)
    else:
        tree.do("truncate", path, at=_within(tree.size(path), rng))


def zookeeper_directory(tree: Tree, rng: random.Random) -> None:
    """The directory of a broker with ZooKeeper, where partition.metadata may be missing."""
    tree.do("create", "meta.properties", text="#\nversion=0\nbroker.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    path = tree.inside("partition.metadata")
    if tree.exists(path) and rng.random() < 0.7:
        tree.do("delete", path)


NOWHERE = "nowhere"
SEGMENT_KINDS = ("log", "index", "timeindex", "txnindex", "snapshot")
ROOT_FILES = (RECOVERY_POINT, LOG_START, "replication-offset-checkpoint", "cleaner-offset-checkpoint", MARKER)
PARTITION_FILES = ("leader-epoch-checkpoint", "partition.metadata")
# Digits of other scripts, which Java takes for what they say; a digit of a later plane and one above a line, which not.
STRANGE_DIGITS = ("\u0663", "\uff15", "\u0967\u0968", "1\u0660", "-\u0665", "\U0001d7d3", "\u00b2")


def _some_offset(tree: Tree, rng: random.Random) -> int:
    """Where a segment begins or the log ends, or near it."""
    return max(0, rng.choice([*tree.bases(), tree.end_offset()]) + rng.choice([0, 0, 0, 0, 1, 50]))


def _known_file(tree: Tree, rng: random.Random) -> str:
    """A path at which a broker reads or writes something."""
    segment = tree.file(_some_offset(tree, rng), rng.choice(SEGMENT_KINDS))
    epochs, metadata = (tree.inside(name) for name in PARTITION_FILES)
    return rng.choice([segment, segment, epochs, epochs, metadata, rng.choice(ROOT_FILES), "meta.properties"])


def temporary_left(tree: Tree, rng: random.Random) -> None:
    """What a write beside a file leaves that was cut short before the renaming."""
    tree.do("create", _known_file(tree, rng) + ".tmp", text=rng.choice(["", "0\n", "0\n1\n0 0\n", "left"]))


def strange_number(tree: Tree, rng: random.Random) -> None:
    """A segment's file under a name that begins with another number than it seems to, or with none."""
    offset = _some_offset(tree, rng)
    number = rng.choice([*STRANGE_DIGITS, f"-{offset:020d}", f"-{offset}", f"+{offset}", f"{offset:090d}", f"{offset}"])
    kind = rng.choice([*SEGMENT_KINDS, "log"])
    if kind == "snapshot" and str(offset) in number:  # of two snapshots of one offset the listing's order decides
        number = rng.choice(STRANGE_DIGITS)
    name = f"{number}.{kind}" + rng.choice(["", "", "", ".swap", ".cleaned", ".deleted"])
    logs = tree.names()
    if logs and rng.random() < 0.5:
        tree.do("copy", tree.inside(rng.choice(logs)), to=tree.inside(name))
    else:
        tree.do("create", tree.inside(name), text="")


def strange_partition(tree: Tree, rng: random.Random) -> None:
    """The partition once more, under a name with another number."""
    number = rng.choice([*STRANGE_DIGITS, "+5", "-5", "0" * 70 + "6", "\u0660"])
    name = f"t-{number}" + rng.choice(["", "", "", f".{'ab' * 16}-delete", f".{'ab' * 16}-future"])
    tree.do("copy", tree.partition, to=name)


def wrong_kind(tree: Tree, rng: random.Random) -> None:
    """A directory, or a dangling symbolic link, in place of a file."""
    path = _known_file(tree, rng) + rng.choice(["", "", "", "", ".tmp", ".swap", ".cleaned", ".deleted"])
    if tree.exists(path):
        tree.do("delete", path)
    if rng.random() < 0.6:
        tree.do("mkdir", path)
    else:
        tree.do("symlink", path, to=NOWHERE)


# kind -> weight
DAMAGES: dict[Damage, int] = {
    flip_bit: 10,
    set_byte: 5,
    cut_tail: 8,
    cut_at_batch: 5,
    zero_range: 6,
    noise_range: 4,
    insert_bytes: 2,
    drop_bytes: 2,
    zeros_behind: 5,
    noise_behind: 4,
    swap_two_batches: 3,
    duplicate_batch: 3,
    remove_batch: 3,
    batch_from_elsewhere: 2,
    header_field: 5,
    header_field_with_crc: 8,
    more_batches: 4,
    more_markers: 2,
    index_damage: 8,
    index_swapped: 2,
    snapshot_damage: 6,
    epoch_damage: 5,
    checkpoint_damage: 5,
    scan_everything: 6,
    marker_toggled: 3,
    missing_segment: 3,
    segment_left_over: 4,
    foreign_file: 1,
    orphan_segment: 2,
    partition_metadata: 1,
    zookeeper_directory: 3,
    temporary_left: 10,
    strange_number: 8,
    strange_partition: 3,
    wrong_kind: 8,
}


def random_damage(root: Path, rng: random.Random, *, most: int = 4, partition: str = PARTITION) -> list[Op]:
    """Damage a log directory by one to ``most`` random kinds; returns the operations that did it."""
    tree = Tree(root, partition)
    kinds, weights = list(DAMAGES), list(DAMAGES.values())
    for kind in rng.choices(kinds, weights, k=rng.randint(1, most)):
        with contextlib.suppress(DamageError):  # an earlier kind may have taken away what this one wanted
            kind(tree, rng)
    return tree.ops
