"""What to type next, where a start would lose the metadata or cannot come as far as the logs."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from msgspec import structs

from kafkalog import open as open_directory
from kafkalog.codec.model import BATCH
from kafkalog.codec.names import parse_partition_directory
from kafkalog.codec.plain.scanner import scan
from kafkalog.recovery import plan
from kafkalog.recovery.broker.node.answer import (
    ConsequenceKind,
    Fault,
    LostDirectoryConsequence,
    NodeAnswer,
    NodeStart,
    Part,
    Role,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.releases import release_of
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.decide.ways import LostRange, Measured, RecoveryRequest, RecoveryWay
from kafkalog.words.commands import NOTHING_GIVEN
from kafkalog.words.next_step import NextStep, StepKind, done_of, note_of_ways, of_all_together, what_to_type
from kafkalog.words.node import mends
from kafkalog.words.outlook import Outlook, first_screen
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import replica_roles, unpack_replicas
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"


def inverted(path: Path, size: int = 512) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes(byte ^ 0xFF for byte in data[:size]) + data[size:])


def words(text: str) -> str:
    return " ".join(text.split())


def typed(text: str) -> list[str]:
    """Commands that the first screen says to type."""
    return [line.strip() for line in text.split("\n\n")[0].splitlines() if line.startswith("  kafkalog ")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node that is the only voter and a broker, whose metadata log is damaged at its beginning."""
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")
    inverted(root / METADATA / "00000000000000000000.log")
    return root


@pytest.mark.parametrize("before", [[], ["recover", "--yes"]])
def test_an_emptied_metadata_log_of_the_only_voter_has_a_next_step(before: list[str], tmp_path: Path) -> None:
    """A real 4.1.0 made every partition of such a directory -stray; a plan named `recover`, and after that nothing."""
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")
    for log in (root / METADATA).glob("*.log"):
        log.write_bytes(b"")
    if before:
        kafkalog(*before, root)
    printed = kafkalog("plan", root).out
    assert typed(printed.removeprefix(printed.partition("plan for")[0])) == [f"kafkalog quorum show {root}"]
    assert "if there is none, not even a backup: runbook, stray-partitions" in words(printed)


def topics_in(root: Path) -> set[str]:
    names = (parse_partition_directory(path.name) for path in root.iterdir() if path.is_dir())
    return {name.topic for name in names if name is not None and not name.state} - {"__cluster_metadata"}


def test_all_topics_are_gone_and_not_those_before_the_damage(root: Path) -> None:
    """A real 4.1.0 makes every partition of such a directory -stray."""
    printed = words(kafkalog("plan", root).out)
    assert f"all topics (at least {len(topics_in(root))}) and all access control entries are gone" in printed
    assert "lost beside this plan: all of the metadata" in printed
    assert "nothing is left to do here" not in printed
    assert "this mode changes nothing" not in printed
    assert typed(kafkalog("plan", root).out) == [f"kafkalog plan --cluster-metadata {root}"]


def test_a_start_that_fails_has_changed_the_metadata_before(root: Path) -> None:
    """A real 4.1.0 wrote the metadata log anew and renamed four of seven partitions, before a log ended it."""
    for log in root.glob("*-[0-9]/*.log"):
        if log.parent.name != METADATA and log.stat().st_size >= 512:
            inverted(log)
    for waiting in root.glob("*/*.deleted"):
        waiting.unlink()
    planned = kafkalog("plan", root)
    for printed in (words(planned.out), words(kafkalog("verify", root).out)):
        assert "would NOT START" in printed
        assert "but before it fails, the controller takes the metadata for empty" in printed
        assert "the start renames -stray" in printed
    assert "out of service, and after this plan too" in words(planned.out)
    assert typed(planned.out) == [f"kafkalog plan --cluster-metadata {root}"]


def test_a_damaged_metadata_log_is_planned_before_the_logs(tmp_path: Path) -> None:
    """Kafka 4.1.1 renamed these partitions `-stray`; a recovery of the logs does not prevent it."""
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")
    log = root / METADATA / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[2500] ^= 0x10
    log.write_bytes(data)
    settings = tmp_path / "broker.properties"
    settings.write_text(f"log.dirs={root}\n")
    printed = kafkalog("plan", "--server-properties", settings, columns=80).out.split("\n\n")[0]
    strays = "__transaction_state-0, __transaction_state-1, quotes-3-0, trades-4-0"
    assert f"that the metadata does not place on broker 1: {strays} and the only voter's" in words(printed)
    assert [line.split()[0] for line in printed.splitlines()[1:] if line.startswith(("Kafka", "and"))] == [
        "Kafka", "and", "and",
    ]  # fmt: skip
    assert " ..." not in printed
    assert "kafkalog recover" not in printed
    command = f"kafkalog plan --cluster-metadata {root} --server-properties {settings}"
    assert words(printed.replace("\\\n", "")).endswith(command)


def test_what_is_left_is_said_after_the_logs_are_recovered(tmp_path: Path) -> None:
    """The start of a log is not in these files, and the node does not start for its lost meta.properties."""
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")
    (root / "meta.properties").unlink()
    first = max((path for path in root.glob("*-0/*.log")
                 if path.parent.name != METADATA and len(list(path.parent.glob("*.log"))) > 2),
                key=lambda path: path.stat().st_size)  # fmt: skip
    inverted(first)
    kafkalog("recover", root, "--yes", "--accept-loss")
    printed = words(kafkalog("plan", root).out)
    assert "would NOT START" in printed
    assert "what is left: meta.properties stays as it is" in printed
    assert "nothing is left to do here" not in printed


@pytest.mark.parametrize("form", ["with a byte order mark", "on several lines"])
def test_a_quorum_state_that_no_node_reads_is_written_anew(form: str, tmp_path: Path) -> None:
    """A node reads one value in the first line, with Jackson."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    state = root / METADATA / "quorum-state"
    data = state.read_bytes()
    state.write_bytes(b"\xef\xbb\xbf" + data if form == "with a byte order mark"
                      else json.dumps(json.loads(data), indent=2).encode())  # fmt: skip
    planned = kafkalog("plan", root)
    assert "would NOT START" in words(planned.out)
    (command,) = typed(planned.out)
    done = kafkalog(*shlex.split(command)[1:], "--yes")
    assert done.code == 2
    assert "nothing" not in done.out
    assert json.loads(state.read_bytes().splitlines()[0])["leaderEpoch"] > json.loads(data)["leaderEpoch"]
    assert "would NOT START" not in words(kafkalog("plan", root).out)


def test_what_mends_metadata_that_a_start_overwrites_comes_before_the_logs(tmp_path: Path) -> None:
    """The logs alone would be mended for nothing: the start after it makes every partition -stray."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    newest = max((root / METADATA).glob("*.checkpoint"))
    newest.chmod(0o600)
    os.truncate(newest, 12 + int.from_bytes(newest.read_bytes()[8:12]))
    torn = max((root / "alerts-25-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes() + b"torn")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for command in (["plan", root], ["recover", root], ["report", root, "--format", "text", "-o", "-"]):
        commands = typed(kafkalog(*command).out)
        assert len(commands) == 1
        assert commands[0].startswith("kafkalog quorum recover --standalone")


def test_what_to_do_about_a_disk_that_was_replaced_is_said() -> None:
    """A disk that is formatted again has another directory id, and what was on it has no leader."""
    kind = ConsequenceKind.NOT_SERVING
    lost = LostDirectoryConsequence(kind=kind, detail="partitions are in no log directory, and have no leader: a-0")
    other = StartConsequence(kind=kind, detail="no leader is elected")

    def done(*consequences: StartConsequence) -> str:
        answer = NodeAnswer(outcome=StartOutcome.NOT_SERVING, consequences=consequences)
        node = NodeStart(roots=("/d",), role=Role.COMBINED, node_id=1, releases=(release_of("4.3"),), answers=(answer,))
        return done_of(RecoveryWay(way="safe", measured=Measured()), node)

    assert "mount the old disk; if it is lost, an empty directory with its old directory.id" in done(lost)
    assert "do not start the node yet" in done(lost, other)
    assert "do not start the node yet" in done(other)


def test_a_node_without_a_metadata_log_has_nothing_to_mend_in_it(tmp_path: Path) -> None:
    """It was formatted anew: `plan --cluster-metadata` had nothing to do."""
    forgotten = Fault(part=Part.QUORUM_STATE, kind="missing", file="quorum-state", detail="quorum-state is missing")
    answer = NodeAnswer(outcome=StartOutcome.NOT_SERVING, faults=(forgotten,))
    node = NodeStart(roots=(str(tmp_path),), role=Role.COMBINED, node_id=1, releases=(release_of("4.3"),),
                     answers=(answer,))  # fmt: skip
    assert list(mends(node)) == []
    (tmp_path / METADATA).mkdir()
    (advice,) = mends(node)
    assert advice.commands == (f"kafkalog plan --cluster-metadata {tmp_path}",)


@pytest.mark.parametrize("release", ["3.9.1", "4.1.0"])
def test_files_of_a_later_release_need_that_release_and_no_repair(release: str, tmp_path: Path) -> None:
    """Both ended on the files of 4.3.0, on which 4.3.0 itself started."""
    data = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    finished = kafkalog("plan", "--release", release, data)
    said = " ".join(finished.out.split())
    assert f"Kafka {release} would NOT START on it" in said
    assert "(Kafka 4.3 or later has written the files: start that)" in said
    assert "--cluster-metadata" not in said
    assert (finished.code, typed(finished.out)) == (3, [])
    assert "refused: a recovery does not make it start: Kafka 4.3 or later has written the files" in said
    before = stamps(data)
    (data / ".kafka_cleanshutdown").unlink()
    changed = {name: held for name, held in stamps(data).items() if name != ".kafka_cleanshutdown"}
    declined = kafkalog("recover", "--release", release, "--yes", "--accept-loss", data)
    assert (declined.code, "Kafka 4.3 or later has written the files: start that" in declined.err) == (3, True)
    assert first_difference(dict(stamps(data)), dict(changed)) == ""
    assert before.keys() >= changed.keys()
    assert kafkalog("plan", data).code in (0, 1)


def test_a_recommended_replica_and_its_plan_are_not_told_as_opposites(tmp_path: Path) -> None:
    """Whether the plan drops something or not: another broker comes first, and the command is for the other case. It is
    that of the best recovery, which is not the plan if that drops something.
    """
    volume = unpack_replicas(tmp_path) / f"broker-{replica_roles()['behind']}"
    (volume / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    for choose, otherwise, option in (
        (max, "type this only if that is not possible:", ""),
        (min, "if that is not possible, type this instead of this plan (salvage; ", " --mode salvage"),
    ):
        log = choose(path for path in (volume / "equal-0").glob("*.log") if path.stat().st_size)
        os.truncate(log, log.stat().st_size - 5)
        (made,) = plan(volume)
        assert made.choice.recommended is not None
        assert (str(made.choice.recommended.way), made.needs_consent) == ("replica", bool(option))
        step = what_to_type(made, NOTHING_GIVEN)
        assert step.note.startswith(f"recommended is replica, below; {otherwise}")
        assert step.commands == [f"kafkalog recover {volume}{option} --yes"]


def test_a_replica_that_two_directories_recommend_is_on_the_first_screen_as_for_one(tmp_path: Path) -> None:
    plans: list[Plan] = []
    for topic in ("equal", "tale"):
        volume = unpack_replicas(tmp_path / topic) / f"broker-{replica_roles()['behind']}"
        (volume / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        log = max(path for path in (volume / f"{topic}-0").glob("*.log") if path.stat().st_size)
        os.truncate(log, log.stat().st_size - 5)
        plans += plan(volume)
    given = of_all_together(plans, NOTHING_GIVEN)
    assert len(given.together) == 2
    steps = [(made, what_to_type(made, given)) for made in plans]
    note = "recommended is replica, below; type this only if that is not possible:"
    both = [Outlook(root=made.root, forecast=None, choice=made.choice, step=step) for made, step in steps]
    assert first_screen("title", both).note == note
    command = structs.replace(both[1].step, text="type this:", kind=StepKind.PLAN)
    one = first_screen("title", [both[0], structs.replace(both[1], step=command)]).note
    assert one == f"{plans[0].root}: {note.removesuffix(':')}; {plans[1].root}: type this:"


def outlook(root: str, step: NextStep) -> Outlook:
    return Outlook(root=root, forecast=None, choice=RecoveryChoice(), step=step)


def test_the_directory_in_which_something_is_to_be_done_comes_first() -> None:
    calm = NextStep(text="nothing to do; more", kind=StepKind.NONE)
    screen = first_screen("title", [outlook("/a", calm), outlook("/b", NextStep(text="look for the newer copy"))])
    assert screen.note == "/b: look for the newer copy (1 more directory is below)"


def test_one_command_for_several_directories_is_said_with_what_it_loses_in_all(tmp_path: Path) -> None:
    """The first batch of a log is damaged in each: salvage keeps all other batches, mode safe leaves the damage."""
    logs = volumes_with_damage(tmp_path)
    sound = unpack_replicas(tmp_path / "sound") / f"broker-{replica_roles()['behind']}"
    before = sum(len(list(open_directory(sound)[topic, 0].records())) for topic in logs.values())
    screen = kafkalog("plan", *logs, columns=500).out.partition("\n\n")[0]
    (typed,) = [line for line in screen.split("\n") if line.startswith("  kafkalog recover ")]
    assert kafkalog(*shlex.split(typed)[1:]).code == 2
    lost = before - sum(len(list(open_directory(root)[topic, 0].records())) for root, topic in logs.items())
    assert lost
    assert f"type this instead of this plan (salvage; it loses {lost} records):" in screen


def volumes_with_damage(place: Path) -> dict[Path, str]:
    """Two log directories, each with one log whose first batch is damaged, and its topic."""
    logs = {place / topic: topic for topic in ("equal", "tale")}
    source = unpack_replicas(place / "all") / f"broker-{replica_roles()['behind']}"
    for volume, topic in logs.items():
        volume.mkdir()
        (source / f"{topic}-0").rename(volume / f"{topic}-0")
        log = min((volume / f"{topic}-0").glob("*.log"))
        data = bytearray(log.read_bytes())
        size = scan(bytes(data)).batches[0].size
        data[BATCH.size + 2 : size - 2] = bytes(size - 4 - BATCH.size)
        log.write_bytes(data)
    return logs


def test_the_plans_own_way_is_not_said_to_be_instead_of_it() -> None:
    """Only ways have the offsets at which consumers of committed data stop."""
    own = Measured(records_kept=1, records_lost=2, bytes_cut=3)
    way = RecoveryWay(way="safe", measured=structs.replace(own, held_back=10), how=RecoveryRequest())
    assert note_of_ways([(way, own)]) == "type this (safe; it loses 2 records):"
    nothing = Measured(records_kept=1, records_lost=0, bytes_cut=0)
    way = RecoveryWay(way="safe", measured=nothing, how=RecoveryRequest())
    assert note_of_ways([(way, nothing)], loses_beside=True) == "type this (safe; it loses nothing more):"


def test_records_that_were_lost_before_are_not_said_to_be_lost_by_the_command() -> None:
    gone = Measured(records_kept=1, records_lost=2, lost=[LostRange("p-0", 5, 6)], bytes_cut=0)
    way = RecoveryWay(way="safe", measured=gone, how=RecoveryRequest())
    assert note_of_ways([(way, gone)]) == "type this (safe; it loses nothing; lost before: 2 records):"


def test_commands_of_several_directories_are_said_with_what_they_lose_together(tmp_path: Path) -> None:
    """Of one log there is a copy, of the other none: one is merged, the other salvaged."""
    logs = volumes_with_damage(tmp_path)
    copies = {topic: tmp_path / f"copy-{topic}" for topic in logs.values()}
    source = tmp_path / "all" / f"broker-{replica_roles()['new_leader']}"
    for topic, copy in copies.items():
        copy.mkdir()
        (source / f"{topic}-0").rename(copy / f"{topic}-0")
    for given, way in (({"equal"}, "merge and salvage"), ({"equal", "tale"}, "merge")):
        named = [word for topic in given for word in ("--copy", copies[topic])]
        screen = kafkalog("plan", *logs, *named, columns=1000).out.partition("\n\n")[0]
        note, *commands = screen.splitlines()[-3:]
        assert all(command.startswith("  kafkalog recover ") for command in commands)
        loses = "4 records" if "and" in way else "nothing"
        assert note == f"type these instead of this plan, one for each directory ({way}; together they lose {loses}):"


def test_ways_with_other_names_and_one_command_are_said_together() -> None:
    measured = Measured(records_kept=3, records_lost=2)
    step = NextStep(text="x", commands=["kafkalog recover /a /b --yes"], kind=StepKind.WAY, before="stop; ")
    choices = [
        RecoveryChoice(ways=[RecoveryWay(way=way, measured=measured, how=RecoveryRequest())])
        for way in ("safe", "salvage")
    ]
    screen = first_screen("title", [Outlook(root="/a", forecast=None, choice=each, step=step) for each in choices])
    assert screen.note == "stop; type this instead of this plan (safe and salvage; it loses 4 records):"


def test_an_older_copy_is_looked_for_before_a_command_is_typed(tmp_path: Path) -> None:
    """The metadata log of the only voter is cut: what a newer copy has is gone with the start."""
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")
    log = max((root / METADATA).glob("*.log"))
    os.truncate(log, log.stat().st_size - 30)
    note, command = kafkalog("plan", "--cluster-metadata", root, columns=1000).out.split("\n\n")[0].splitlines()[-2:]
    assert note.startswith("before a start, look for a newer copy of the metadata (runbook: kraft-files); type this (")
    assert command.startswith("  kafkalog recover")


def test_a_command_is_printed_once(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/compact")[0], tmp_path / "data")
    log = max((root / METADATA).glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:-30])
    printed = kafkalog("plan", "--cluster-metadata", root, columns=1000).out
    assert printed.count(f"kafkalog recover {root} --cluster-metadata --yes") == 1
    assert "what to type for it is at the top" in printed
    log.write_bytes(data)
    inverted(log)
    printed = kafkalog("plan", "--cluster-metadata", root, columns=1000).out
    assert printed.count("every controller and broker has a copy of the metadata log: give them all to") == 1


def test_what_a_start_loses_is_not_told_as_lost_by_the_plan(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    gone = next(path for path in sorted(root.glob("[a-z]*-0")))
    gone.rename(root / f"{gone.name}.0123456789abcdef0123456789abcdef-delete")
    said = words(kafkalog("plan", root).out)
    assert f"the start makes 1 partition ({gone.name}) again, empty" in said
    lost = f"all or part of 1 partition ({gone.name}), by the broker's next start, recovered or not"
    assert f"lost beside this plan: {lost}" in said
    assert "it loses nothing)" not in said
    assert f"served after a start as it is, but empty: 1 partition ({gone.name})" in said
