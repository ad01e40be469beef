"""A batch whose checksum is right and whose records cannot be read, before every command that reads logs.

`recover` never cuts it by itself, as Kafka does not; who looks inside says so, and who does not vouches for nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.words.insides import NOT_EXAMINED
from testkit.judging.trees import contents
from testkit.made import damage
from testkit.running.command import kafkalog

FIRST, LAST = 10, 11
LOG = f"{0:020}.log"
SEEK = "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group GROUP --topic t:0 --reset-offsets --to-offset 12 "


def log_dir(path: Path, *, is_broken: bool, is_compressed: bool = False) -> Path:
    batches = [damage.batch(2 * number, [damage.record(0), damage.record(1)]) for number in range(12)]
    if is_broken and is_compressed:
        batches[5] = damage.with_crc(damage.put(batches[5], "attributes", 4))
    elif is_broken:
        batches[5] = damage.with_crc(batches[5][:61] + b"\x7f" + batches[5][62:])
    (path / "t-0").mkdir(parents=True)
    (path / "t-0" / LOG).write_bytes(b"".join(batches))
    return path


@pytest.fixture(params=[False, True], ids=["records", "compression"])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return log_dir(tmp_path / "broken", is_broken=True, is_compressed=request.param)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return log_dir(tmp_path / "whole", is_broken=False)


@pytest.mark.parametrize(
    "words",
    [["verify"], ["find", "--offset", "10"], ["find", "--offset", "11"], ["dump"], ["dump", "--all"],
     ["report", "--format", "md", "--output", "-"]],
)  # fmt: skip
def test_who_looks_inside_names_its_offsets_and_how_to_pass_it(words: list[str], broken: Path) -> None:
    done = kafkalog(words[0], broken, *words[1:])
    assert done.code == 1
    if words[0] == "report":
        assert "has to seek past it" in done.out
    else:
        assert f"offsets {FIRST} to {LAST}, 20" in done.err
        assert SEEK in done.err


@pytest.mark.parametrize(
    ("words", "insides"),
    [(["ls"], "not_examined"), (["plan"], "not_examined"), (["recover", "--yes"], "not_examined"),
     (["verify", "--shallow"], "not_examined"), (["verify"], "unreadable"), (["find", "--offset", "10"], "unreadable"),
     (["plan", "--mode", "salvage"], "readable")],
)  # fmt: skip
def test_what_each_knows_of_the_insides(words: list[str], insides: str, broken: Path) -> None:
    (line,) = kafkalog(words[0], broken, *words[1:], "--json").objects
    place = line["partitions"][0] if words[0] in ("ls", "verify") else line
    assert place["insides"] == insides


def test_nothing_to_do_is_not_all_is_well(broken: Path) -> None:
    assert kafkalog("recover", broken, "--yes", "--mark-clean").code == 2
    assert f"nothing to do; {NOT_EXAMINED}" in kafkalog("plan", broken).lines
    report = kafkalog("report", broken, "--format", "md", "--output", "-")
    assert "can be read" not in report.out


def test_a_report_and_a_recovery_do_not_say_alone_that_nothing_is_lost(broken: Path) -> None:
    told = " ".join(kafkalog("report", broken, "--format", "text", "--output", "-").out.split())
    stops = "consumers stop at 10 of t-0: 2 offsets in batches that cannot be read (runbook: poison-record)"
    assert f"lost with this plan: nothing; {stops}" in told
    assert "Lost: no record but those that cannot be read" in told
    passes = f"To pass it: consumers stop there; a group that stands there passes it with: {SEEK}"
    assert f"Unreadable: {stops} {passes}" in told
    done = " ".join(kafkalog("recover", broken, "--yes").out.split())
    assert f"none is lost; {NOT_EXAMINED}" in done


def test_a_report_of_sound_batches_names_no_unreadable_ones(whole: Path) -> None:
    told = kafkalog("report", whole, "--format", "text", "--output", "-").out
    assert "cannot be read" not in told
    assert "Unreadable" not in told


def test_safe_cuts_nothing(broken: Path) -> None:
    before = (broken / "t-0" / LOG).read_bytes()
    assert kafkalog("recover", broken, "--yes").code == 2
    assert [each.read_bytes() for each in broken.glob(f"*/{LOG}")] == [before]


def test_it_is_taken_out_with_consent_and_put_back(broken: Path) -> None:
    assert kafkalog("recover", broken, "--yes").code == 2  # what is beside the log
    before = contents(broken)
    refused = kafkalog("recover", broken, "--mode", "salvage", "--yes")
    assert refused.code == 3
    assert f"offsets {FIRST} to {LAST}" in refused.err
    assert contents(broken) == before
    assert kafkalog("recover", broken, "--mode", "salvage", "--accept-loss", "--yes").code == 2
    offsets = [each["offset"] for each in kafkalog("dump", broken, "--json").objects]
    assert offsets == [each for each in range(24) if not FIRST <= each <= LAST]
    assert kafkalog("undo", broken, "--yes").code == 2
    assert contents(broken) == before


def test_salvage_of_what_can_be_read_takes_out_nothing(whole: Path) -> None:
    assert kafkalog("recover", whole, "--yes").code == 2
    before = contents(whole)
    kafkalog("recover", whole, "--mode", "salvage", "--yes")
    assert contents(whole)[f"t-0/{LOG}"] == before[f"t-0/{LOG}"]


@pytest.mark.parametrize("turned", [False, True])
def test_a_merge_takes_the_one_that_can_be_read(turned: bool, broken: Path, whole: Path, tmp_path: Path) -> None:
    copies = [whole, broken] if turned else [broken, whole]
    assert kafkalog("merge", *copies, "--into", tmp_path / "merged").code == 0
    (log,) = (tmp_path / "merged").rglob("*.log")
    assert log.read_bytes() == (whole / "t-0" / LOG).read_bytes()


def test_it_is_replaced_from_a_copy(broken: Path, whole: Path) -> None:
    done = kafkalog("recover", broken, "--copy", whole, "--mode", "merge", "--accept-loss", "--yes")
    assert done.code == 2
    (log,) = broken.glob(f"*/{LOG}")
    assert log.read_bytes() == (whole / "t-0" / LOG).read_bytes()


def test_compare_says_which_copy_cannot_be_read(broken: Path, whole: Path) -> None:
    done = kafkalog("compare", broken, whole)
    assert "Of these, the records of 1 batch cannot be read in " in done.out
    lines = str(kafkalog("compare", broken, whole, "--json").objects)
    assert "'unreadable_batches': 1" in lines or "'unreadable_there_batches': 1" in lines
