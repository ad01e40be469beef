"""What somebody does who types what the first screen says: it names what comes first, and commands can be pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kafkalog import commit_offsets
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.log import open_partition
from testkit.kafka.start_records import append_metadata
from testkit.made.batches import simple
from testkit.made.scenes import SCENES
from testkit.made.tens import flip, log_of_tens
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

HEIGHT = 24


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def screen(*words: object) -> list[str]:
    return kafkalog(*words, columns=80).out.splitlines()[:HEIGHT]


@pytest.mark.parametrize("command", ["verify", "plan"])
def test_a_missing_directory_comes_with_what_follows_from_it(command: str, place: Path) -> None:
    SCENES["lost-directory"](place)
    lines = screen(command, "data", "metadata")
    text = " ".join(" ".join(lines).split())
    refused = "metadata: Kafka 4.1 and later would NOT START on it: java.lang.RuntimeException: No `meta.properties`"
    assert text.index("a broker with KRaft does not start") < text.index(refused)
    assert "nothing to do" not in text


def test_batches_in_lost_and_found_come_before_a_loss_is_accepted(place: Path) -> None:
    SCENES["lost-and-found"](place)
    lines = screen("plan", "data")
    (first,) = (number for number, line in enumerate(lines) if "lost+found/#131078 first" in line)
    (recover,) = (number for number, line in enumerate(lines) if line.startswith("  kafkalog recover"))
    assert first < recover
    acted = " ".join(" ".join(screen("recover", "data", "--yes")).split())
    assert "lost+found/#131078 first" in acted
    assert "(batches_outside, below); this is done next, and it can be undone" in acted


@pytest.mark.parametrize("are_all", [True, False])
def test_batches_in_lost_and_found_do_not_replace_the_mending_of_the_quorum(are_all: bool, place: Path) -> None:
    SCENES["lost-and-found"](place)
    metadata = place / "data" / "__cluster_metadata-0"
    if not are_all:
        image = MetadataLog(open_partition(metadata)).state().image
        (broker,) = image.brokers.values()
        directories = [*broker.directories, "QLzt-g_BuAkWCE5UuGwm5Q"]
        fields = {"broker_id": broker.id, "broker_epoch": broker.epoch, "log_dirs": directories}
        log = max(path for path in metadata.glob("*.log") if path.stat().st_size)
        append_metadata(log, ("BrokerRegistrationChangeRecord", 2, fields))
    (metadata / "quorum-state").write_text("")
    text = " ".join(kafkalog("plan", "data").out.split())
    assert "(batches_outside, below); and then: recover does not change the quorum's files" in text
    assert "kafkalog quorum recover --standalone" in text
    done = kafkalog("quorum", "recover", "--standalone", "data", "--yes")
    every = "" if are_all else ", with all log directories of the node"
    assert f"mends the quorum's files only; for the rest type this{every}: kafkalog plan" in " ".join(done.out.split())


def test_what_mends_a_quorum_is_a_command_of_its_own(place: Path) -> None:
    SCENES["kraft-files"](place)
    data = place / "data"
    assert kafkalog("recover", data, "--yes").code == 2
    lines = kafkalog("plan", data, columns=1000).out.splitlines()
    assert lines.count(f"  kafkalog quorum recover --standalone {data}") == 1
    assert sum("quorum recover" in line for line in lines) == 1


def test_a_command_that_refuses_a_log_without_metadata_is_not_advised(place: Path) -> None:
    """Neither if the log is not known to be damaged: all of it is one batch that is torn, by its size."""
    data = own_copy(brokers("4.1.1/segments")[0], place / "data")
    (data / "__cluster_metadata-0" / "quorum-state").write_text("garbage")
    for log in (data / "__cluster_metadata-0").glob("*.log"):
        log.write_bytes(bytes(byte ^ 0x5A for byte in log.read_bytes()))
    assert "--standalone" not in kafkalog("plan", data, columns=1000).out
    refused = kafkalog("quorum", "recover", "--dry-run", "--standalone", data, "--others-are-gone")
    assert refused.code == 3


def test_a_torn_end_of_the_metadata_log_is_said_once(place: Path) -> None:
    SCENES["lost-controllers"](place)
    printed = kafkalog("plan", "node-1").out
    assert printed.count("torn_tail (__cluster_metadata-0/") == 1


def test_one_verdict_comes_before_the_plans_of_several_directories(place: Path) -> None:
    SCENES["dead-cluster"](place)
    roots = ["broker-1", "broker-2", "broker-3", "controller"]
    planned, done = screen("plan", *roots), screen("recover", *roots, "--yes")
    verdict = planned[: planned.index("type this:")]
    assert verdict[0] == "plan for 4 log directories in mode safe"
    assert done[: len(verdict)] == verdict
    assert done[len(verdict)] == "this is done next, and it can be undone"


def test_a_plan_has_no_rows_of_partitions_that_keep_their_logs(place: Path) -> None:
    """Of 70 partitions 60 rows said "none", because old snapshots of producers go to quarantine after a crash."""
    SCENES["stopped"](place)
    (place / "data" / ".kafka_cleanshutdown").unlink()
    lines = kafkalog("plan", "data").lines
    assert not [line for line in lines if line.startswith(("clicks-42-0", "sessions-20-0"))]
    (summed,) = (line for line in lines if line.startswith("no log is cut; in 8 partitions: "))
    assert summed.endswith("rebuilt, 3 files set aside (--all lists them)")
    assert [line for line in kafkalog("plan", "data", "--all").lines if line.startswith("sessions-20-0")]


def test_what_is_true_of_every_directory_is_said_of_none_in_particular(place: Path) -> None:
    SCENES["lost-directory"](place)
    (note,) = (line for line in kafkalog("plan", "disk", "metadata").lines if line.startswith("nothing to do; "))
    assert "below" not in note


def test_nothing_is_said_to_be_done_where_one_of_several_directories_needs_consent(place: Path) -> None:
    SCENES["flipped-bit"](place)
    (place / "data").rename(place / "flipped")
    SCENES["stopped"](place)
    (place / "data" / ".kafka_cleanshutdown").unlink()
    assert "this is done next" in kafkalog("recover", "data", "--yes", "--into", "copy").out
    refused = kafkalog("recover", "data", "flipped", "--yes", columns=80)
    assert refused.code == 3
    assert refused.lines[0] == "plan for 2 log directories in mode safe"
    assert "this is done next" not in refused.out
    assert "kafkalog recover" in refused.out


@pytest.mark.parametrize("command", [("plan",), ("report", "--format", "text", "--output", "-")])
def test_a_lost_meta_properties_comes_with_the_command_that_restores_it(command: tuple[str, ...], place: Path) -> None:
    SCENES["meta-properties"](place)
    data, other = place / "data", place / "data-2"
    lines = kafkalog(command[0], "data", "data-2", *command[1:], columns=1000).out.splitlines()[:HEIGHT]
    typed = " ".join(" ".join(lines).replace("\\", "").split())
    assert f"type this: kafkalog recover {data} {other} --meta-properties --yes" in typed
    assert "below" not in typed[: typed.index("kafkalog recover")], "the command is for the other directory too"


@pytest.mark.parametrize("command", [["plan"], ["report", "--format", "text", "-o", "-"]])
def test_what_a_missing_directory_had_is_not_called_kept(command: list[str], place: Path) -> None:
    """Also in the report, and also if the directory that is left has a command."""
    log = place / "one" / "t-0" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(simple(3))
    (place / "two").mkdir()
    text = " ".join(" ".join(screen(command[0], "one", "two", *command[1:])).split())
    assert "first see to what is said at the top (runbook: lost-directory); then type this" in text
    assert "nothing here; what the directories named at the top had is not counted" in text


def test_an_empty_directory_is_said_by_recover_as_by_a_plan(place: Path) -> None:
    SCENES["lost-directory"](place)
    said = "data: the directory is empty: perhaps its disk is not mounted; a broker with KRaft does not start"
    refused = kafkalog("recover", "data", "metadata", "--yes")
    assert refused.code == 3
    assert said in refused.err
    assert "8 partitions of this broker were in it" in refused.err


@pytest.mark.parametrize("command", [["plan"], ["report", "--format", "text", "-o", "-"]])
def test_what_a_missing_directory_had_and_what_to_type_are_on_the_screen(command: list[str], place: Path) -> None:
    """However many groups have commits in its partitions."""
    SCENES["lost-directory"](place)
    gone = sorted(each.name for each in (place / "disk").iterdir() if each.is_dir())
    for topic, _, number in (name.rpartition("-") for name in gone):
        commit_offsets("metadata", "mail", {(topic, int(number)): 1500})
    lines = screen(command[0], "data", "metadata", "--server-properties", "server.properties", *command[1:])
    text = " ".join(" ".join(lines).replace("\\", "").split())
    assert [name for name in gone if name not in text] == []
    assert len(gone) == 8
    assert "then ask again: kafkalog plan " in text
    assert "--server-properties server.properties" in text[text.index("then ask again") :]


@pytest.mark.parametrize("mode", [["--accept-loss"], ["--mode", "salvage"]])
def test_records_that_nothing_proves_are_shown_where_the_recovery_has_put_them(mode: list[str], place: Path) -> None:
    """The command of the plan names bytes that are in quarantine by then: cut off, or with the whole file."""
    (log,) = log_of_tens(place / "data", 5)
    flip(log, (2, 100, 0x3C))
    (before,) = commands_that_show(kafkalog("plan", "data", columns=1000).out)
    shown = kafkalog(*before).out.splitlines()[1:]
    assert shown
    (after,) = commands_that_show(kafkalog("recover", "data", "--yes", *mode, columns=1000).out)
    assert "data.recovery" in after[1]
    assert kafkalog(*after).out.splitlines()[1:] == shown


def commands_that_show(printed: str) -> list[list[str]]:
    lines = (line.partition("kafkalog explain ")[2] for line in printed.splitlines() if "nothing proves" in line)
    return [["explain", *shlex.split(line)] for line in lines]
