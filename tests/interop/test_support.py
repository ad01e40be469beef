"""The damage language, the histories and the comparison, tested; most of it without Kafka."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from testkit.judging import compare
from testkit.made import damage, histories
from testkit.recorded import fixture_data, recovery_cases

if TYPE_CHECKING:
    from pathlib import Path

    from testkit.kafka.kafka_oracle import KafkaOracle

# The record keeps long bytes only in part; such a damage cannot be carried out again.
CUT = "..."
LOG = "t-0/00000000000000000000.log"


def log_of(*sizes: int) -> bytes:
    """Batches with so many records each, offsets from 0."""
    data, offset = b"", 0
    for size in sizes:
        data += damage.batch(offset, [damage.record(i, value=b"v%d" % i) for i in range(size)])
        offset += size
    return data


@pytest.fixture
def tree(tmp_path: Path) -> damage.Tree:
    made = damage.Tree(tmp_path)
    made.do("create", LOG, hex=log_of(1, 2, 3)).recovery_point(0)
    made.ops.clear()
    return made


def test_recorded_damage_gives_the_recorded_directories(tmp_path: Path) -> None:
    """Every operation list of the recorded cases, applied to its base, gives ``before/`` byte for byte."""
    done, wrong = 0, []
    fixture_data.unpack_bases(tmp_path)
    for case in recovery_cases.unpacked_cases():
        ops, form = case.facts["damage"], case.facts["form"]
        if any(CUT in str(o.get("hex", "")) or CUT in str(o.get("text", "")) for o in ops):
            continue
        work = tmp_path / "work"
        shutil.copytree(tmp_path / case.facts["base"] / ("crash" if form == "crash" else "clean"), work)
        damage.apply(work, ops)
        found = compare.compare(case.before, work)
        if found:
            wrong.append(f"{case.name}: {found[0]}")
        shutil.rmtree(work)
        done += 1
    assert wrong == []
    assert done > 540


def test_batches_are_edited_by_index_and_field(tree: damage.Tree) -> None:
    tree.do("set_field", LOG, batch=1, field="partition_leader_epoch", value=7)
    tree.do("set_field", LOG, batch=2, field="last_offset_delta", value=9)
    (_, first), (_, second), (_, third) = tree.batches(LOG)
    assert [damage.get(b, "partition_leader_epoch") for b in (first, second, third)] == [0, 7, 0]
    assert damage.with_crc(second) == second, "the leader epoch is not under the crc"
    assert damage.with_crc(third) != third
    tree.do("fix_crc", LOG, batch=2)
    third = tree.batches(LOG)[2][1]
    assert damage.with_crc(third) == third
    assert damage.last_offset(third) == 3 + 9


def test_batches_are_swapped_duplicated_and_removed(tree: damage.Tree) -> None:
    tree.do("swap_batches", LOG, a=2, b=0).do("duplicate", LOG, batch=1).do("remove", LOG, batch=0)
    assert [damage.get(b, "base_offset") for _, b in tree.batches(LOG)] == [1, 1, 0]


def test_what_was_recorded_does_the_same_again(tree: damage.Tree, tmp_path: Path) -> None:
    before = tmp_path.parent / "before"
    shutil.copytree(tmp_path, before)
    tree.do("flip", LOG, at=70, bit=3).do("append_garbage", LOG, n=9, seed=1).do("zero", LOG, at=5, n=3)
    tree.do("insert", LOG, at=2, hex=b"\1\2").do("rename", LOG, to="t-0/other.log").recovery_point(5)
    damage.apply(before, tree.ops)
    assert compare.compare(tmp_path, before) == []


def test_what_does_not_fit_is_an_error(tree: damage.Tree) -> None:
    for o in (
        {"op": "remove", "path": LOG, "batch": 3},
        {"op": "flip", "path": LOG, "at": 10**6, "bit": 0},
        {"op": "delete", "path": "t-0/nothing"},
        {"op": "set_field", "path": LOG, "batch": 0, "field": "timestamp", "value": 1},
        {"op": "explode", "path": LOG},
    ):
        with pytest.raises(damage.DamageError):
            damage.apply_op(tree.root, o)
    assert tree.data(LOG) == log_of(1, 2, 3)


def test_shrinking_keeps_what_matters_and_makes_it_smaller() -> None:
    ops = [{"op": "flip", "path": "x", "at": i, "bit": 0} for i in range(20)]
    ops[7] = {"op": "garbage", "path": "x", "at": 3, "n": 64, "seed": 5}
    asked = []

    def still_wrong(candidate: list[damage.Op]) -> bool:
        asked.append(candidate)
        places = [o["at"] for o in candidate]
        if 1 in places and 0 not in places:
            raise damage.DamageError("does not fit any more")
        return 11 in places and any(o["op"] == "garbage" for o in candidate)

    assert damage.shrink(ops, still_wrong) == [{"op": "garbage", "path": "x", "at": 3, "n": 1, "seed": 5}, ops[11]]
    assert len(asked) < 60


# ---------------------------------------------------------------- histories
def test_a_case_is_its_json(kafka: KafkaOracle, tmp_path: Path) -> None:
    for number in range(25):
        made = tmp_path / f"made-{number}"
        case = histories.random_case(77, number, made, kafka)
        again = histories.Case.from_json(case.to_json()).build(tmp_path / f"again-{number}", kafka)
        assert case.ops
        assert compare.compare(made, again) == []


def test_the_same_seed_gives_the_same_cases_and_another_seed_others(kafka: KafkaOracle, tmp_path: Path) -> None:
    def cases(seed: int, name: str) -> list[histories.Case]:
        return [case for case, _ in histories.campaign(seed, 5, tmp_path / name, kafka)]

    assert cases(5, "a") == cases(5, "b") != cases(6, "c")


@pytest.mark.parametrize("kind", histories.KINDS)
def test_kafka_accepts_every_history_as_it_is(kind: str, kafka: KafkaOracle) -> None:
    tree = histories.History(kind, "accepted").tree(kafka)
    params = {**histories.PARAMS, **histories.SETTINGS_OF_KIND.get(kind, {})}
    clean = kafka.check(tree / "clean", params)
    assert clean["outcome"] == "loaded"
    assert clean["log_bytes_untouched"]
    assert clean["indexes_untouched"]
    crashed = kafka.check(tree / "crash", params)
    assert crashed["outcome"] == "loaded"
    assert crashed["log_bytes_untouched"]


# ---------------------------------------------------------------- comparison
def entry(*numbers: tuple[int, int]) -> bytes:
    return b"".join(value.to_bytes(size, "big", signed=True) for value, size in numbers)


BATCHES = log_of(1, 2, 3)
SECOND = damage.walk(BATCHES)[1][0]
SNAPSHOT = damage.snapshot([(7, 1, 2, 3, 4, 5, 6, -1), (8, 1, 2, 3, 4, 5, 6, -1)])
OTHER_SNAPSHOT = damage.snapshot([(7, 1, 2, 3, 4, 5, 6, -1), (8, 1, 2, 3, 4, 99, 6, -1)])


@pytest.mark.parametrize(
    ("name", "expected", "actual", "meaning"),
    [
        ("t-0/1.index", entry((5, 4), (80, 4)), entry((5, 4), (81, 4)), "entry 0 of 1, position: 80, not 81"),
        ("t-0/1.index", entry((5, 4), (80, 4)), b"", "entry 0 of 1, relative offset: 5, not cut off (expected 8 bytes"),
        ("t-0/1.index", b"", entry((5, 4), (80, 4)), "entry 0 after the 0, relative offset: cut off, not 5"),
        ("t-0/1.timeindex", entry((9, 8), (3, 4)) * 2, entry((9, 8), (3, 4), (9, 8), (4, 4)), "entry 1 of 2, relative"),
        ("t-0/1.txnindex", entry((0, 2), (1, 8), (2, 8), (3, 8), (4, 8)), entry((0, 2), (1, 8), (2, 8), (3, 8), (5, 8)),
         "entry 0 of 1, last stable offset: 4, not 5"),
        ("t-0/1.snapshot", SNAPSHOT, OTHER_SNAPSHOT, "entry 1, timestamp: 5, not 99"),
        ("t-0/1.snapshot", SNAPSHOT, damage.snapshot([]), "header, number of entries: 2, not 0"),
        ("t-0/1.log", BATCHES, damage.put(BATCHES, "max_timestamp", 0), "batch 0 at 0, base offset 0, max timestamp"),
        ("t-0/1.log", BATCHES, BATCHES[: SECOND + 23] + b"\0\0\0\7" + BATCHES[SECOND + 27 :],
         f"batch 1 at {SECOND}, base offset 1, last offset delta: 1, not 7"),
        ("t-0/1.log", BATCHES, BATCHES[:SECOND], f"bytes fewer than expected: from batch 1 at {SECOND}, base offset 1"),
        ("t-0/1.log", BATCHES[:SECOND], BATCHES, "more than expected, the first of it a batch at offset 1"),
        ("t-0/leader-epoch-checkpoint", b"0\n1\n3 7\n", b"0\n1\n3 8\n", "line 3: '3 7', not '3 8'"),
    ],
)  # fmt: skip
def test_the_first_differing_byte_is_named(name: str, expected: bytes, actual: bytes, meaning: str) -> None:
    difference = compare.compare_bytes(name, expected, actual)
    assert difference is not None
    assert meaning in str(difference)
    assert difference.position is not None
    assert expected[: difference.position] == actual[: difference.position]
    assert expected[: difference.position + 1] != actual[: difference.position + 1]


def test_missing_and_unexpected_files_are_differences_and_deleted_ones_are_not(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    damage.apply(one, [{"op": "create", "path": p, "text": "x"} for p in ("t-0/a", "t-0/b", "t-0/c.log.deleted")])
    damage.apply(two, [{"op": "create", "path": p, "text": "x"} for p in ("t-0/b", "t-0/d", ".lock")])
    assert [str(d) for d in compare.compare(one, two)] == [
        "t-0/a: missing (expected 1 bytes)",
        "t-0/d: not expected (found 1 bytes)",
    ]
    assert compare.compare(one, two, ignore=["t-0/a", "d"]) == []


def test_stray_directories_are_the_same_whatever_their_random_id(tmp_path: Path) -> None:
    for name, letter in (("one", "a"), ("two", "b")):
        stray = f"t-0.{letter * 32}-stray/x"
        damage.apply(tmp_path / name, [{"op": "create", "path": stray, "text": "x"}])
    assert compare.compare(tmp_path / "one", tmp_path / "two") == []


def test_a_file_in_the_place_of_a_directory_is_a_difference(tmp_path: Path) -> None:
    damage.apply(tmp_path, [{"op": "create", "path": "one/x", "text": ""}, {"op": "mkdir", "path": "two/x"}])
    assert [d.path for d in compare.compare(tmp_path / "one", tmp_path / "two")] == ["x"]
