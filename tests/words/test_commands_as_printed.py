"""What a command prints to be typed next does what was said beside it, and sentences name what they are about."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kafkalog.words.first_screen import FirstScreen, Loss
from testkit.made.scenes import SCENES, metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import Finished, kafkalog


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(finished: Finished, start: str) -> list[str]:
    """The command lines of the first screen that begin with these words, each once."""
    text = finished.out.replace(" \\\n", " ")
    found = (" ".join(line.split()) for line in text.split("\n\n")[0].splitlines())
    return list(dict.fromkeys(line for line in found if line.startswith(start)))


def typed(line: str) -> Finished:
    return kafkalog(*shlex.split(line)[1:])


def words(finished: Finished) -> str:
    return " ".join(finished.out.split())


@pytest.mark.parametrize("with_properties", [False, True])
def test_commands_for_two_directories_leave_nothing_to_do(with_properties: bool, place: Path) -> None:
    """The settings of topics are in the metadata log of one of them, and decide about indexes in the other."""
    SCENES["failing-disk"](place)
    data, other = place / "copy", place / "other"
    metadata_elsewhere(data, other)
    asked: list[object] = [data, other]
    if with_properties:
        (place / "server.properties").write_text(f"log.dirs={data},{other}\n")
        asked = ["--server-properties", "server.properties"]
    planned = kafkalog("plan", *asked, columns=80)
    promised = {line["path"]: line for line in kafkalog("plan", "--json", *asked).objects}
    lines = printed(planned, "kafkalog recover")
    assert lines
    for line in lines:
        done = typed(line)
        assert done.code == 2, done
        assert "unless topics have settings" not in words(done)
    assert (other / "__cluster_metadata-0").is_dir()
    later = {line["path"]: line for line in kafkalog("plan", "--json", *asked).objects}
    assert promised[str(data)]["changes"]
    assert not any(line["changes"] for line in later.values())


def test_two_directories_of_a_broker_have_one_command_and_one_alone_is_not_the_whole(place: Path) -> None:
    """The broker's first registration, in the metadata log, names its directories."""
    data, other = own_copy(brokers("4.3.0/segments")[0], place / "data"), place / "other"
    own = next(line for line in (data / "meta.properties").read_text().splitlines() if line.startswith("directory.id="))
    moved = sorted(path.name for path in data.glob("quotes-22-*"))
    assert moved
    other.mkdir()
    for name in moved:
        (data / name).rename(other / name)
    other_id = own.replace(own[-22:], "AAAAAAAAAAAAAAAAAAAAZg")
    (other / "meta.properties").write_text((data / "meta.properties").read_text().replace(own, other_id))
    for root in (data, other):
        (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (line,) = printed(kafkalog("plan", data, other, columns=80), "kafkalog recover")
    assert line == f"kafkalog recover {data} {other} --yes"
    both = words(kafkalog("plan", data, other))
    assert "unless another of its log.dirs" not in both
    alone = words(kafkalog("plan", other, columns=80))
    assert "lost with this plan: nothing" in alone


def test_a_recovery_that_did_not_know_the_settings_of_topics_says_so(place: Path) -> None:
    SCENES["failing-disk"](place)
    metadata_elsewhere(place / "copy", place / "other")
    alone = words(kafkalog("recover", "copy", "--mode", "salvage", "--yes"))
    assert "changes nothing unless topics have settings for segments or indexes that were not given" in alone
    later = kafkalog("plan", "--json", "copy", "other").objects
    assert any(line["changes"] for line in later)  # which is why


def test_the_plan_that_verify_asks_for_is_of_the_same_broker(place: Path) -> None:
    """By its properties, with all of its directories: by one alone there would be nothing to see."""
    SCENES["failing-disk"](place)
    metadata_elsewhere(place / "copy", place / "other")
    Path("server.properties").write_text(
        "process.roles=broker\nnode.id=77\ncontroller.listener.names=C\ncontroller.quorum.voters=1@localhost:1\n"
        f"log.dirs={place / 'copy'},{place / 'other'}\n"
    )
    checked = kafkalog("verify", "--server-properties", "server.properties", columns=80)
    assert "doesn't match previous node id 77" in words(checked)
    (line,) = printed(checked, "kafkalog plan")
    assert "doesn't match previous node id 77" in words(typed(line))


def test_volumes_of_several_clusters_are_planned_for_together(place: Path) -> None:
    SCENES["duplicated-partition"](place)
    meta = place / "data-2" / "meta.properties"
    meta.chmod(0o600)
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA", meta.read_text()))
    checked = kafkalog("verify", "data", "data-2", columns=80)
    assert "identity_mismatch" in checked.err
    assert printed(checked, "kafkalog plan") == ["kafkalog plan data data-2"]


def test_verify_names_the_first_offset_that_is_missing(place: Path) -> None:
    """Not the end of the log: sound batches come after the damage, in the segment or in later ones."""
    SCENES["readme"](place)
    text = words(kafkalog("verify", "data", columns=200))
    (found,) = re.findall(r"quotes-20-6: [^:]*; offsets? (\d+)[^:]* cannot be read", text)
    (planned,) = kafkalog("plan", "--json", "data").objects
    (partition,) = (each for each in planned["partitions"] if each["name"] == "quotes-20-6")
    (safe,) = (way for way in partition["ways"] if way["way"] == "safe")
    assert int(found) == min(lost["first"] for lost in safe["offsets_lost"])


def test_what_a_start_cuts_is_no_silence_of_triage(place: Path) -> None:
    SCENES["failing-disk"](place)
    found = kafkalog("triage", "copy", columns=80)
    assert found.code == 1
    assert "broker 1 cuts 10.3 KiB off metrics-22-0, which then ends at offset 768" in words(found)
    assert "Nothing is lost," not in words(found)
    *partitions, summary = kafkalog("triage", "--json", "copy").objects
    cut = {each["topic"]: log["cut_bytes"] for each in partitions for log in each["logs"] if log["cut_bytes"]}
    (planned,) = kafkalog("plan", "--json", "copy").objects
    (kafka,) = (way for way in planned["ways"] if way["way"] == "kafka")
    assert cut == {"metrics-22": kafka["bytes_cut"]}
    assert (summary["cut_by_start"], summary["at_risk"]) == (1, 0)
    assert kafkalog("recover", "copy", "--mode", "salvage", "--yes").code == 2
    after = kafkalog("triage", "copy")
    assert after.code == 0
    assert "Nothing is lost by the elections, and every partition gets a leader;" in words(after)


def test_the_printed_set_aside_is_carried_out(place: Path) -> None:
    SCENES["stopped"](place)
    planned = kafkalog("plan", "--mode", "set-aside", "--topic", "orders-23", "data", columns=80)
    assert "moves to quarantine: orders-23-0" in planned.out
    assert "no partition changes" not in planned.out
    assert "in 0 of 0 partitions" not in planned.out
    (line,) = printed(planned, "kafkalog recover")
    assert "type this to drop records whose checksum is right here:" in planned.out
    assert typed(line).code == 2
    assert not (place / "data" / "orders-23-0").exists()


def test_both_directories_of_a_duplicate_are_named(place: Path) -> None:
    SCENES["duplicated-partition"](place)
    for command in ("plan", "verify"):
        text = words(kafkalog(command, "data", "data-2", columns=200))
        (names,) = set(re.findall(r"Duplicate log directories for stock-41-0 are found in both (\S+) and (\S+)", text))
        assert sorted(Path(each).parent.name for each in names) == ["data", "data-2"]


def test_a_file_that_does_not_exist_is_not_called_unknown(place: Path) -> None:
    SCENES["stopped"](place)
    gone = kafkalog("explain", "data/orders-23-0/no-such-file")
    assert (gone.code, "does not exist" in gone.err) == (64, True)
    Path("data/orders-23-0/notes").touch()
    assert "known by its name" in kafkalog("explain", "data/orders-23-0/notes").err


def test_a_sentence_is_cut_between_words() -> None:
    sentence = "43 sound records behind the damage, " * 9
    screen = FirstScreen(
        title="title", start=[], out_of_service="", lost="", losses=[Loss(place="orders-1", offsets=sentence)]
    )
    for width in range(30, 90):
        last = screen.lines(width)[-1]
        assert last.endswith(" ...")
        assert len(last) <= width
        assert last.removesuffix(" ...").split()[-1].rstrip(",") in sentence.replace(",", "").split()


def test_a_quorum_recovered_from_a_broker_says_what_it_may_lack(place: Path) -> None:
    """The controllers that are gone could commit without the broker: its copy is no proof that nothing is missing."""
    SCENES["no-controller"](place)
    made = ("--from-broker", "node-11", "--node", 9, "--endpoint", "localhost:9093", "--into", "controller")
    assert kafkalog("quorum", "recover", "--yes", *made, "--others-are-gone").code == 0
    text = words(kafkalog("quorum", "show", "controller"))
    assert "what 1, 2, 3 had committed while they were voters may be missing in it" in text
    SCENES["moved-controllers"](place)
    whole = words(kafkalog("quorum", "show", "node-1", "node-2", "node-3"))
    assert "3 of 3 voters are here, a majority" in whole
    assert "may be missing" not in whole


def test_an_open_end_claims_no_offset_as_lost(place: Path) -> None:
    """Zeros say nothing of how many records were there, and so not of the first of them either."""
    SCENES["power-loss"](place)
    for command in ("plan", "recover --dry-run"):
        text = words(kafkalog(*command.split(), "data", columns=200))
        assert "parcels-40-3: an unknown number from offset 67 on" in text


def test_of_several_directories_each_command_is_named_with_what_it_loses(place: Path) -> None:
    """A directory with nothing to do does not stand before the command for another one."""
    SCENES["failing-disk"](place)
    SCENES["stopped"](place)
    screen = kafkalog("plan", "data", "copy", columns=200).out.split("\n\n")[0]
    note = " ".join(" ".join(screen.splitlines()[-4:]).split())
    assert "nothing to do" not in note
    assert "type this instead of this plan (salvage; it loses about 16 records): kafkalog recover" in note
    assert "below" not in note, "one command is for both"


def test_the_undo_that_ls_and_plan_name_is_a_whole_command(place: Path) -> None:
    SCENES["power-loss"](place)
    Path("data").rename("a place")
    assert kafkalog("recover", "a place", "--yes").code == 2
    for command in ("ls", "plan"):
        text = words(kafkalog(command, "a place", columns=200))
        (line,) = re.findall(r"can be undone: `(kafkalog undo [^`]*)`", text)
    assert typed(f"{line} --yes").code == 2
    assert "can be undone" not in kafkalog("ls", "a place").out
