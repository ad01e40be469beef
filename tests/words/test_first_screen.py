"""The first 24 lines of `plan`, `verify`, `recover` and `report`, 80 columns wide: they are enough to act on."""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from kafkalog.cli.sentences import print_screen
from kafkalog.codec.common.shell import shell_line
from kafkalog.words.first_screen import FirstScreen, Loss
from kafkalog.words.wrapping import wrapped, wrapped_command
from testkit.made.scenes import SCENES
from testkit.made.tens import flip, log_of_tens
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import replica_roles, unpack_replicas
from testkit.running.command import kafkalog

COMMANDS = (("plan",), ("verify",), ("recover", "--dry-run"), ("report", "-o", "-", "--format", "text"))
ACCIDENTS = ("power-loss", "readme", "kraft-files")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def screen(*words: object) -> list[str]:
    """The verdict: what comes before the first blank line."""
    lines = kafkalog(*words, columns=80).lines
    assert "" in lines
    return lines[: lines.index("")]


def text(*words: object) -> str:
    return " ".join(" ".join(screen(*words)).replace(" \\", " ").split())


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_the_verdict_fits_a_screen(accident: str, place: Path) -> None:
    SCENES[accident](place)
    for words in COMMANDS:
        lines = screen(*words, "data")
        assert 4 <= len(lines) <= 24
        wide = [line for line in lines[1:] if len(line) > 80 and str(place) not in line]
        assert wide == [], "only a path may be wider"
        assert any("would " in line for line in lines[1:4]), "whether it starts comes first"


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_no_line_of_plan_and_recover_is_wider_than_the_terminal(accident: str, place: Path) -> None:
    SCENES[accident](place)
    for words in (("plan",), ("plan", "--all"), ("recover", "--dry-run")):
        lines = kafkalog(*words, "data", columns=80).lines
        assert [line for line in lines if len(line) > 80 and str(place) not in line] == []


def test_what_is_lost_since_when_and_what_to_type(place: Path) -> None:
    SCENES["power-loss"](place)
    for words in (("plan",), ("report", "-o", "-", "--format", "text")):
        said = text(*words, "data")
        assert "Kafka 4.1 and later would start on it" in said
        assert "out of service after a start: nothing here" in said
        lost = "metrics-22-0: at least 8 records, offsets 800 to 807, written 2026-11-21 00:37:12Z by its header"
        assert lost in said
        assert "parcels-40-3: an unknown number from offset 67 on, written after 2026-11-21 00:37:08Z" in said
        assert f": kafkalog recover {place}/data --yes" in said
    assert "type this to see whether records are lost" in text("verify", "data")


def test_the_command_does_what_it_says(place: Path) -> None:
    SCENES["power-loss"](place)
    lines = screen("plan", "data")
    command = "\n".join(lines[next(i for i, line in enumerate(lines) if line.startswith("  kafkalog ")) :])
    words = shlex.split(command.replace("\\\n", " "))
    assert words[0] == "kafkalog"
    done = kafkalog(*words[1:])
    assert done.code == 2
    assert "this is done next, and it can be undone" in done.out
    assert kafkalog("verify", "data").code == 0


def test_several_directories_have_one_verdict(place: Path) -> None:
    SCENES["duplicated-partition"](place)
    lines = screen("plan", "data", "data-2")
    assert lines[0] == "plan for 2 log directories in mode safe"
    assert len(lines) <= 24
    partitions = {path.parent.name for path in place.glob("data*/*/partition.metadata")} - {"__cluster_metadata-0"}
    assert f"out of service until that is mended: {len(partitions)} partitions" in lines


def test_a_missing_directory_comes_before_everything(place: Path) -> None:
    SCENES["lost-directory"](place)
    for words in (("plan",), ("verify",)):
        top = " ".join(" ".join(screen(*words, "data", "metadata")[1:4]).split())
        assert "the directory is empty: perhaps its disk is not mounted" in top


def test_a_screen_with_more_than_fits_says_how_much_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    losses = [
        Loss(place=f"orders-{number}", offsets="3 records", written="after 2026-01-01 00:00:00Z")
        for number in range(70)
    ]
    long = "java.lang.IllegalStateException: " + "what the broker says " * 40
    whole = FirstScreen(
        title="plan for data",
        start=[f"Kafka 4.{number} {long}" for number in range(9)],
        out_of_service="out of service: all",
        lost="lost with this plan: 210 records",
        losses=losses,
        beyond_end=[long] * 12,
        note="type this:",
        commands=[f"kafkalog recover data-{number} --yes" for number in range(12)],
    )
    lines = whole.lines(80)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  and ") and line.endswith("more partitions, below") for line in lines)
    assert lines[-1] == "  and 6 more commands, below"
    assert whole.left_out(80)[0].startswith("Kafka 4.0")
    print_screen(whole)
    screen, _, commands = capsys.readouterr().out.partition("\n\n")
    assert screen.splitlines() == lines
    assert commands.splitlines() == ["all 12 commands, in their order:", *(f"  {each}" for each in whole.commands)]


def test_the_first_command_is_on_the_screen_however_much_is_said_before_it() -> None:
    """It stood on line 25 and after, below a colon, and the losses were only counted."""
    long = "what the broker says " * 20
    command = "kafkalog recover " + " ".join(f"/a/path/of/a/directory-{number}" for number in range(9)) + " --yes"
    full = FirstScreen(
        title="plan for data",
        start=[f"Kafka 4.{number} would start on it, {long}" for number in range(3)],
        out_of_service=long,
        not_given=long,
        lost=long,
        losses=[Loss(place=f"{'place' * 8}-{number}", offsets="3 records, " * 8) for number in range(5)],
        beyond_end=[long] * 5,
        deleted="a start removes 3 deleted records of t; to keep them: below",
        deleted_in_full="a start removes 3 records; to keep them, first: kafkalog undelete data --topic t --hold --yes",
        note=f"type this instead, {long}",
        commands=[command, command],
        problems=["data: the directory is empty", long],
    )
    lines = full.lines(80)
    assert len(lines) == 24
    typed = wrapped_command(f"  {command}", 80)
    assert lines[-len(typed) - 1 :] == [*typed, "  and 1 more command, below"]
    assert sum("placeplace" in line for line in lines) == 1
    assert "  and 4 more partitions, below" in lines
    assert full.deleted in lines
    assert full.all_commands(80)[-2:] == [
        "a start removes 3 records; to keep them, first:", "  kafkalog undelete data --topic t --hold --yes"
    ]  # fmt: skip


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70])
def test_a_command_on_several_lines_is_one_for_a_shell(width: int) -> None:
    paths = ["/a place/with $HOME and 'quotes'", "/one's place of 'two \" words", "/a\tb 'c"]
    words = ["kafkalog", "recover", *paths, *(f"--config=name.{n}=value" for n in range(9))]
    lines = wrapped_command(shell_line(words), width)
    assert len(lines) > 4
    printed = subprocess.run(["bash", "-c", "\n".join(lines).replace("kafkalog", "printf '%s\\0'", 1)],
                             capture_output=True, check=True, env=dict(os.environ))  # fmt: skip
    assert printed.stdout.decode().split("\0")[:-1] == words[1:]


def test_a_sentence_wraps_between_words_and_keeps_long_ones() -> None:
    path = "/" + "x" * 100
    assert wrapped("short", 80) == ["short"]
    assert wrapped(f"moves to quarantine: {path} (2 files)", 80) == ["moves to quarantine:", f"  {path}", "  (2 files)"]


def test_a_node_without_partitions_that_does_not_start_is_out_of_service(place: Path) -> None:
    """Kafka 4.3.0 ended as a controller, with a quorum-state of zeros."""
    root = own_copy(brokers("4.3.0/metadata")[0], place / "data")
    for partition in root.glob("*-*/"):
        if partition.name != "__cluster_metadata-0":
            shutil.rmtree(partition)
    state = root / "__cluster_metadata-0" / "quorum-state"
    size = state.stat().st_size
    state.unlink()
    state.write_bytes(bytes(size))
    for words in (("plan",), ("report", "-o", "-", "--format", "text")):
        said = text(*words, root)
        assert "would NOT START" in said
        assert "out of service after a start: nothing here" not in said
        assert "out of service until that is mended: the node (no partition is here)" in said


def test_verify_and_plan_have_one_sentence_about_the_start(place: Path) -> None:
    for marker in (True, False):
        SCENES["stopped"](place / str(marker))
        if not marker:
            (place / "False" / "data" / ".kafka_cleanshutdown").unlink()
        told = {line for command in ("plan", "verify") for line in screen(command, place / str(marker) / "data")
                if line.startswith("Kafka ")}  # fmt: skip
        how = ", trusting the clean-shutdown marker" if marker else ", after its own recovery"
        assert told == {f"Kafka 4.1 and later would start on it{how}"}


def test_the_loss_of_a_start_is_said_whole_and_in_part(place: Path) -> None:
    (log,) = log_of_tens(place / "data", 5)
    flip(log, (1, 100, 0x3C))
    for words in (("plan",), ("report", "-o", "-", "--format", "text"), ("report", "-o", "-", "--format", "md")):
        said = " ".join(kafkalog(*words, "data").out.split())
        assert "its own recovery, which would lose 40 records, of which 30 can still be read" in said


def test_a_partition_whose_consumers_stop_is_not_among_those_that_are_in_service(place: Path) -> None:
    """A start that trusts the marker leaves the damage; after a kill it cuts it off."""
    SCENES["stopped"](place)
    flip(min((place / "data" / "stock-41-0").glob("*.log")), (1, 100, 0x3C))
    said = text("plan", "data")
    assert "served after a start, but consumers stop at damage in 1 partition (stock-41-0)" in said
    assert "nothing here" not in said
    (place / "data" / ".kafka_cleanshutdown").unlink()
    (place / "data" / "recovery-point-offset-checkpoint").unlink()
    assert "out of service after a start: nothing here" in text("plan", "data")


def test_a_log_that_a_start_ends_below_its_index_refuses_writes(place: Path) -> None:
    """Kafka 4.1.1 ended such a log at its base offset, and threw InvalidOffsetException for records after it. With
    sound records behind that end it acknowledged the first writes, at their offsets, and consumers got the old records.
    """
    (log,) = log_of_tens(place / "data", 5)
    at = log.stat().st_size // 5 * 4
    (place / "data" / ".kafka_cleanshutdown").write_bytes(b"")
    for end in (at, 0):
        with log.open("r+b") as file:
            file.truncate(end)
        log.with_suffix(".index").write_bytes(struct.pack(">ii", 49, at))
        log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1_800_000_000_000, 49))
        said = text("plan", "data")
        skips = "trusting the clean-shutdown marker, and readers would skip 40 records on disk"
        assert (skips in said) is bool(end)
        what = "first writes may be lost though acknowledged, later ones refused" + ", and records skipped" * bool(end)
        assert f"served after a start, but {what} in 1 partition ({log.parent.name})" in said
    (place / "data" / ".kafka_cleanshutdown").unlink()
    assert "out of service after a start: nothing here" in text("plan", "data")


@pytest.mark.parametrize(("sizes", "refuses"), [
    ({"index": (10_485_760, 0), "timeindex": (10_485_756, 0)}, False),
    ({"index": (8, 0), "timeindex": (12, 0)}, False),
    ({"index": (10_485_760, 3), "timeindex": (12, 0)}, False),
    ({"index": (8, 3), "timeindex": (12, 0)}, True),
], ids=["full of zeros", "one entry of zeros", "full", "an entry above the end"])  # fmt: skip
def test_an_empty_log_with_full_indexes_refuses_no_write(
    sizes: dict[str, tuple[int, int]], refuses: bool, place: Path
) -> None:
    """A clean-shutdown marker was copied to a killed broker's directory. Kafka 3.9.1, 4.1.1 and 4.4.0 made the empty
    segments again before the first of 120 commits and 30 transactions, and had all of them after a kill.
    """
    (log,) = log_of_tens(place / "data", 5)
    log.write_bytes(b"")
    for suffix, (size, last) in sizes.items():
        with log.with_suffix(f".{suffix}").open("wb") as file:
            file.truncate(size)
            file.seek(size - (8 if suffix == "index" else 4))
            file.write(last.to_bytes(4, "big"))
    (place / "data" / ".kafka_cleanshutdown").write_bytes(b"")
    assert ("later ones refused" in text("plan", "data")) is refuses


def test_the_sound_records_behind_damage_are_counted_on_the_screen(place: Path) -> None:
    roots = [f"directory-of-a-broker-{number}" for number in range(2)]
    for root in roots:
        (log,) = log_of_tens(place / root, 5)
        flip(log, (1, 100, 0x3C))
        for kind in ("index", "timeindex"):
            log.with_suffix(f".{kind}").write_bytes(bytes(range(1, 25)))
    said = text("verify", *roots)
    assert said.count("30 sound records behind the damage; offsets 10 to 19 cannot be read, written 20") == 2


def test_partitions_that_are_counted_follow_at_least_one() -> None:
    losses = [Loss(place=f"topic-{number}", offsets="3 records, offsets 1 to 3") for number in range(4)]
    shown = FirstScreen(title="plan", start=["Kafka would start"], out_of_service="", lost="lost: some", losses=losses)
    assert shown.lines(80, 6)[-1] == "  and 2 more partitions, below"
    tight = FirstScreen(title="plan", start=[], out_of_service="", lost="", losses=[
        Loss(place="topic-0", offsets="3 records, offsets 1 to 3, " * 4), *losses
    ])  # fmt: skip
    *of_the_first, counted = tight.lines(80, 3)[1:]
    assert (len(of_the_first), counted) == (2, "  and 4 more partitions, below")


def test_of_the_consequences_of_a_start_as_many_are_shown_as_fit_whole() -> None:
    first, long, short = "Kafka 4.1 would start on it, and A", "and " + "is long " * 30, "and it is short"
    given = FirstScreen(title="plan", start=[first, short, long.strip(), short], out_of_service="", lost="")
    assert given.lines(80, 6)[1:] == [first, short, "and 2 more, below"]
    assert given.lines(80)[1:] == [first, short, *wrapped(long.strip(), 80), short]
    whole = FirstScreen(title="plan", start=[first, short, short], out_of_service="", lost="")
    assert whole.lines(80)[1:] == [first, short, short]


def test_each_directorys_note_stands_before_its_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Three commands of two directories followed one note, and nothing said which of them it meant."""
    notes = ["one: type this (merge; it loses nothing):", "two: type this only if replica is not possible:"]
    commands = [f"kafkalog recover {name} --yes" for name in ("one/orders-1", "one", "two")]
    screen = FirstScreen(title="plan", start=[], out_of_service="", lost="", note=notes[0], commands=commands,
                         notes={2: notes[1]})  # fmt: skip
    printed = [notes[0], f"  {commands[0]}", f"  {commands[1]}", notes[1], f"  {commands[2]}"]
    assert screen.lines(80) == ["plan", *printed]
    long = [f"{command} {'word ' * 30}" for command in commands]
    print_screen(FirstScreen(title="plan", start=[], out_of_service="", lost="", note=notes[0], commands=long,
                             notes={2: notes[1]}))  # fmt: skip
    first, _, every = capsys.readouterr().out.partition("\n\nall 3 commands, in their order:\n")
    assert "and 1 more command, below" in first
    assert [line for line in every.splitlines() if not line.startswith(" ")] == notes


@pytest.mark.parametrize("words", [("plan",), ("report", "-o", "-", "--format", "text")])
def test_commands_for_a_node_that_does_not_start_come_first(words: tuple[str, ...], place: Path) -> None:
    volumes = unpack_replicas(place)
    torn, down = (volumes / f"broker-{replica_roles()[role]}" for role in ("behind", "new_leader"))
    log = max((torn / "equal-0").glob("*.log"))
    os.truncate(log, log.stat().st_size - 3)
    other = place / "other"
    other.mkdir()
    identity = (down / "meta.properties").read_text().splitlines()
    kept = [line for line in identity if not line.startswith("directory.id=")]
    (other / "meta.properties").write_text("\n".join([*kept, "directory.id=R0zt-g_BuAkWCE5UuGwm5Q", ""]))
    shutil.copytree(down / "equal-0", other / "equal-0")
    log = max((other / "equal-0").glob("*.log"))
    os.truncate(log, log.stat().st_size // 2)
    said = kafkalog(*words, torn, down, other, columns=80).out
    assert "would NOT START" in said
    commands = [line.strip() for line in said.splitlines() if line.startswith(("  kafkalog ", "  mv "))]
    assert commands[0].startswith("mv ")
