"""What a merge counts of each copy, many batches at a time and one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.judging.executions import choose_execution
from testkit.made import damage
from testkit.running.command import kafkalog


def copy(root: Path, batches: list[bytes], base: int = 0) -> Path:
    """A partition directory `t-0` in `root` with one segment."""
    directory = root / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    return directory


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_a_compacted_copy_lacks_only_what_comes_after_its_compaction(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    cleaned = damage.batch(0, [damage.record(0)], damage.Header(leader_epoch=1))
    cleaned = damage.with_crc(damage.put(cleaned, "last_offset_delta", 5))  # one record is left of six
    whole = [damage.batch(offset, [damage.record(0)], damage.Header(leader_epoch=2)) for offset in range(9)]
    a, b = copy(tmp_path / "a", [cleaned]), copy(tmp_path / "b", whole)
    merged = kafkalog("merge", a, b, "--into", tmp_path / "c")
    (lacks,) = [line for line in merged.lines if " lacks " in line]
    assert lacks.endswith("/a/t-0 lacks 3 of these records, the first at offset 6")


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_batches_of_a_replaced_epoch_are_no_other_bytes(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come in one run with those whose offsets the leader has with other bytes."""
    choose_execution(monkeypatch, enough)
    large = damage.batch(0, [damage.record(number) for number in range(6)], damage.Header(leader_epoch=1))
    leader = [large, *(damage.batch(offset, [damage.record(0)], damage.Header(leader_epoch=3)) for offset in (6, 7, 8))]
    epochs = [1, 1, 1, 2, 2]
    other = [
        damage.batch(offset, [damage.record(0)], damage.Header(leader_epoch=epoch))
        for offset, epoch in enumerate(epochs)
    ]
    a, b = copy(tmp_path / "a", leader), copy(tmp_path / "b", other)
    (a / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n3 6\n")
    (b / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 3\n")
    merged = kafkalog("merge", a, b, "--into", tmp_path / "c")
    replaced, other_bytes = merged.lines[-2:]
    assert replaced.startswith("2 batches (2 records)")
    assert other_bytes.startswith("3 batches of")


@pytest.mark.parametrize("enough", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_what_compaction_removed_does_not_come_back_with_batches_before_the_best_copy(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    kept = damage.with_crc(damage.put(damage.batch(4, [damage.record(0)]), "last_offset_delta", 4))
    best = [kept, *(damage.batch(offset, [damage.record(0)]) for offset in range(9, 12))]
    other = [damage.batch(offset, [damage.record(0)]) for offset in range(4)]
    a, b = copy(tmp_path / "a", best, base=2), copy(tmp_path / "b", other)
    kafkalog("merge", a, b, "--into", tmp_path / "c")
    merged = kafkalog("dump", str(tmp_path / "c" / "t-0"), "--json", "--all")
    assert [line["offset"] for line in merged.objects if "offset" in line] == [0, 1, 4, 9, 10, 11]
