"""Damage of all kinds in both tiers: no wrong row is given, and whatever is lost is named.

By the reading itself, by `kafkalog remote`, or by `verify --remote`; with the events, and of a bucket alone.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.cluster.records.framed_records import FramedRecord, decode_remote_log_metadata, encode_framed
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.inspect.remote import inspect_remote
from kafkalog.recovery.checks.remote import verify_remote
from kafkalog.tiers.reading import mounted
from testkit.recorded.fixture_data import TieredCase, tiered_case

VOLUMES = {"pair": "broker-1", "aiven": "broker"}
"""a recording of each layout, and the log directory that is read with it"""
EVENTS = "__remote_log_metadata-"
Row = tuple[int, int, str | None, str | None]
Damage = Callable[[Path, random.Random], None]


def case_of(root: Path) -> TieredCase:
    return tiered_case("pair" if (root / VOLUMES["pair"]).exists() else "aiven")


def volume_of(root: Path) -> Path:
    return root / VOLUMES[case_of(root).name]


@cache
def expected(name: str) -> dict[str, dict[int, Row]]:
    import base64

    def decoded(text: str | None) -> str | None:
        return None if text is None else base64.b64decode(text).hex()

    return {
        directory: {row["offset"]: (row["offset"], row["timestamp"], decoded(row["key"]), decoded(row["value"]))
                    for row in rows}
        for directory, rows in tiered_case(name).expected("read_uncommitted").items()
    }  # fmt: skip


def objects(root: Path) -> list[Path]:
    return sorted(path for path in (root / "remote").rglob("*") if path.is_file())


def missing(root: Path, rng: random.Random) -> None:
    rng.choice(objects(root)).unlink()


def cut(root: Path, rng: random.Random) -> None:
    path = rng.choice(objects(root))
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def longer(root: Path, rng: random.Random) -> None:
    path = rng.choice(objects(root))
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 200)))


def flipped(root: Path, rng: random.Random) -> None:
    path = rng.choice([each for each in objects(root) if each.stat().st_size])
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 1, 5, 40])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def swapped(root: Path, rng: random.Random) -> None:
    suffix = rng.choice([".log", ".log", *sorted({path.suffix for path in objects(root)})])
    one, other = rng.sample([each for each in objects(root) if each.suffix == suffix], 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def renamed(root: Path, rng: random.Random) -> None:
    path = rng.choice(objects(root))
    names = ["x", "0" * 20 + path.name[20:], path.name + ".tmp", path.name[:20] + ".log"]
    path.rename(path.with_name(rng.choice(names)))


def with_events(root: Path, change: Callable[[list[FramedRecord]], list[FramedRecord]], number: int) -> None:
    directory = volume_of(root) / f"{EVENTS}{number}"
    if not directory.exists():
        return
    records = kafkalog.open_partition(directory).records(on_damage="stop")
    read = [decode_remote_log_metadata(each.value) for each in records]
    shutil.rmtree(root / "scratch", ignore_errors=True)
    (root / "scratch").mkdir()
    with kafkalog.Log.open(root / "scratch" / directory.name) as log:
        log.append([(None, encode_framed(each)) for each in change(read)])
    shutil.rmtree(directory)
    shutil.copytree(root / "scratch" / directory.name, directory)


def events_missing(root: Path, rng: random.Random) -> None:
    def change(found: list[FramedRecord]) -> list[FramedRecord]:
        return [each for each in found if rng.random() > 0.15] or found[:1]

    with_events(root, change, rng.randrange(2))


def events_repeated(root: Path, rng: random.Random) -> None:
    with_events(root, lambda found: [*found, *rng.sample(found, min(5, len(found)))], rng.randrange(2))


def events_out_of_order(root: Path, rng: random.Random) -> None:
    with_events(root, lambda found: rng.sample(found, len(found)), rng.randrange(2))


def events_gone(root: Path, rng: random.Random) -> None:
    shutil.rmtree(volume_of(root) / f"{EVENTS}{rng.randrange(2)}", ignore_errors=True)


def events_flipped(root: Path, rng: random.Random) -> None:
    path = next((volume_of(root) / f"{EVENTS}{rng.randrange(2)}").glob("*.log"), None)
    if path is None:
        return
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


DAMAGES: tuple[Damage, ...] = (
    missing, cut, longer, flipped, flipped, swapped, renamed,
    events_missing, events_repeated, events_out_of_order, events_gone, events_flipped,
)  # fmt: skip


def rows_of(partition: Any) -> tuple[list[Row], list[str]]:
    """What is given, and what is said of the rest."""
    rows: list[Row] = []
    try:
        reader = partition.records(on_damage="stop")
        for each in reader:
            key = None if each.key is None else bytes(each.key).hex()
            value = None if each.value is None else bytes(each.value).hex()
            rows.append((each.offset, each.timestamp, key, value))
        said = [str(each) for each in reader.findings]
    except KafkaLogError as error:
        said = [str(error)]
    return rows, said


def read(root: Path, *, alone: bool) -> dict[str, tuple[list[Row], list[str]]]:
    """By partition; `KafkaLogError` where not even the partitions can be told."""
    case = case_of(root)
    found = mounted([] if alone else [str(volume_of(root))], case.tier(root))
    partitions = [each for _, path in found for each in kafkalog.open(path).partitions]
    names = {f"{each.topic}-{each.partition}": each for each in partitions}
    return {name: rows_of(each) for name, each in names.items() if name in expected(case.name)}


@pytest.fixture(scope="session")
def in_the_bucket(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[int]]]:
    """Of each recording the offsets that the bucket alone gives before anything is damaged."""
    offsets = {}
    for name in VOLUMES:
        root = tiered_case(name).unpack(tmp_path_factory.mktemp(name))
        found = read(root, alone=True)
        assert not [said for _, said in found.values() if said]
        assert sum(len(rows) for rows, _ in found.values()) > 900
        offsets[name] = {each: {row[0] for row in rows} for each, (rows, _) in found.items()}
    return offsets


def named_elsewhere(root: Path, *, alone: bool) -> list[str]:
    """What `kafkalog remote` and `verify --remote` say is wrong."""
    roots = [] if alone else [str(volume_of(root))]
    tier = case_of(root).tier(root)
    found = [*inspect_remote(*roots, remote=tier).findings, *verify_remote(tier, *roots).findings]
    return [str(each) for each in found if each.severity != "info"]


def read_all(root: Path, whole: dict[str, set[int]], *, alone: bool) -> None:
    """Every row is the one that a consumer was given at that offset; where one is missing, something is said."""
    try:
        found = read(root, alone=alone)
    except KafkaLogError:
        return  # said
    wanted_of = expected(case_of(root).name)
    for name, (rows, said) in found.items():
        offsets = [row[0] for row in rows]
        assert offsets == sorted(set(offsets))
        assert [row[0] for row in rows if wanted_of[name].get(row[0], row) != row] == [], name
        wanted = whole.get(name, set()) if alone else set(wanted_of[name])
        if wanted - set(offsets) and not said:
            assert named_elsewhere(root, alone=alone), (name, sorted(wanted - set(offsets)))
    gone = {name for name in (whole if alone else wanted_of) if name not in found}
    assert not gone or named_elsewhere(root, alone=alone), gone


def damaged(seed: int, root: Path) -> None:
    rng = random.Random(seed)
    for each in rng.sample(DAMAGES, rng.choice([1, 1, 2, 4])):
        each(root, rng)


@pytest.mark.parametrize("name", VOLUMES)
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(6, 500))])
def test_nothing_wrong_is_given_and_what_is_lost_is_named(
    name: str, seed: int, tmp_path: Path, in_the_bucket: dict[str, dict[str, set[int]]]
) -> None:
    tiered_case(name).unpack(tmp_path)
    damaged(seed, tmp_path)
    for alone in (False, True):
        read_all(tmp_path, in_the_bucket[name], alone=alone)
    try:
        tier = case_of(tmp_path).tier(tmp_path)
        inspect_remote(volume_of(tmp_path), remote=tier)
        verify_remote(tier, volume_of(tmp_path))
    except KafkaLogError:
        pass
