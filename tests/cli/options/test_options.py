"""The same option means the same thing in every command, and one that has no effect for what is shown is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

from kafkalog.cli.main import COMMANDS, command_of
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.running.command import kafkalog

SEGMENTS = "4.1.1/segments"
TXN = "4.1.1/txn"
GROUPS = "4.1.1/groups"
METADATA = "4.1.1/metadata"
ZOOKEEPER = "2.8.2/zkhist"


def place(name: str) -> Path:
    return unpacked(ZOOKEEPER) / "zookeeper" if name == ZOOKEEPER else brokers(name)[0]


def options() -> list[tuple[str, click.Option]]:
    found = []
    for name in COMMANDS:
        command = command_of(name)
        for each in command.commands.values() if isinstance(command, click.Group) else [command]:
            found += [(name, option) for option in each.params if isinstance(option, click.Option)]
    return found


ELSEWHERE = {"dump", "find", "report", "build", "undelete", "serve"}
"""commands with a reason for words of their own: build and undelete have one topic, serve goes by times of records, the
others have their own options"""


@pytest.mark.parametrize(
    "word", ["--topic", "--partition", "--exclude", "--at", "--json", "--replica", "--config", "--server-properties",
             "--jobs", "--yes", "--zxid", "--as-of", "--group"],
)  # fmt: skip
def test_an_option_is_declared_once(word: str) -> None:
    found = {
        (option.help, option.name, repr(option.metavar), option.multiple)
        for name, option in options()
        if word in option.opts and not option.hidden and name not in ELSEWHERE
    }
    expected = 2 if word == "--as-of" else 1  # a time, or where a log has positions of its own, one of them
    assert len(found) == expected + (word == "--zxid"), found


REFUSED = [
    ("metadata", METADATA, ["--topic", "tickets-0", "--against", "x"], "--against compares everything"),
    ("metadata", METADATA, ["--exclude", "tickets-0", "--against", "x"], "--against compares everything"),
    ("metadata", METADATA, ["--partition", "0", "--against", "x"], "--against compares everything"),
    ("metadata", METADATA, ["--effective", "--partition", "0"], "--partition cannot be used with --effective"),
    ("groups", GROUPS, ["--describe"], "every group is shown"),
    ("groups", GROUPS, ["--describe", "--all-groups"], "every group is shown"),
    ("groups", GROUPS, ["--members"], "`kafkalog groups` shows members"),
    ("offsets", GROUPS, ["--reset-offsets"], "`kafkalog offsets --format reset-csv` writes the file"),
    ("offsets", GROUPS, ["--to-earliest"], "`kafkalog ls` shows where each partition starts and ends"),
    ("offsets", GROUPS, ["--to-datetime", "2020-01-01T00:00:00.000"], "`kafkalog find --time TIME`"),
    ("offsets", GROUPS, ["--time", "-1"], "`kafkalog find --time TIME`"),
    ("offsets", GROUPS, ["--bootstrap-server", "localhost:9092"], "contacts no broker"),
    ("groups", GROUPS, ["--command-config", "x"], "contacts no broker"),
    ("metadata", METADATA, ["--broker", "1"], "--broker needs --effective"),
    ("metadata", METADATA, ["--effective", "--history"], "cannot be used with it"),
    ("metadata", METADATA, ["--effective", "--against", "x"], "cannot be used with it"),
    ("metadata", METADATA, ["--history", "--as-of", "5"], "--as-of and --against cannot be used with it"),
    ("metadata", METADATA, ["--history", "--show-secrets"], "--show-secrets cannot be used with --history"),
    ("metadata", METADATA, ["--as-of", "0x5"], "not a ZooKeeper transaction"),
    ("metadata", ZOOKEEPER, ["--effective", "--replica", "longest"], "--replica chooses among log directories"),
    ("elections", METADATA, ["--unclean"], "--unclean and --as-of need --without"),
    ("elections", METADATA, ["--as-of", "9"], "--unclean and --as-of need --without"),
    ("elections", METADATA, ["--without", "1", "--all"], "--against and --all show what was"),
    ("elections", METADATA, ["--without", "1", "--against", "x"], "--against and --all show what was"),
    ("elections", ZOOKEEPER, ["--replica", "longest"], "--replica chooses among log directories"),
    ("offsets", GROUPS, ["--into", "x"], "--into belongs to --migrate kafka"),
    ("offsets", GROUPS, ["--chroot", "/a"], "none of the paths is a directory of its logs"),
    ("offsets", GROUPS, ["--zxid", "5"], "none of the paths is a directory of its logs"),
    ("offsets", GROUPS, ["--history", "--zxid", "5"], "every moment: --zxid cannot be used with it"),
    ("offsets", GROUPS, ["--format", "reset-csv", "--json"], "cannot be used with it"),
    ("offsets", GROUPS, ["--format", "reset-csv", "--pending"], "cannot be used with it"),
    ("offsets", GROUPS, ["--migrate", "zookeeper", "--pending"], "--pending lists what is not committed"),
    ("offsets", GROUPS, ["--migrate", "zookeeper", "--json"], "prints a script, not JSON"),
    ("offsets", GROUPS, ["--at", "0"], "--as-of selects a past state"),
    ("groups", GROUPS, ["--at", "0"], "--as-of selects a past state"),
    ("offsets", ZOOKEEPER, ["--at-offset", "5"], "--zxid is ZooKeeper's"),
    ("offsets", ZOOKEEPER, ["--replica", "longest"], "--replica is about __consumer_offsets"),
    ("groups", ZOOKEEPER, ["--offsets-partitions", "5"], "--offsets-partitions is about __consumer_offsets"),
    ("groups", GROUPS, ["--zxid", "5"], "none of the paths is a directory of its logs"),
    ("groups", ZOOKEEPER, ["--subscribe", "t"], "--subscribe is about __consumer_offsets"),
    ("groups", ZOOKEEPER, ["--partitions", "t=3"], "--partitions is about __consumer_offsets"),
    ("groups", ZOOKEEPER, ["--metadata", "."], "--metadata is about __consumer_offsets"),
    ("offsets", GROUPS, ["--migrate", "kafka", "--into", "x"], "reads ZooKeeper directories only"),
    ("undelete", SEGMENTS, ["--topic", "t", "--hold", "--as", "x"], "--hold only renames directories"),
    ("zk", ZOOKEEPER, ["--hide-secrets"], "--hide-secrets needs --json"),
    ("zk", ZOOKEEPER, ["--show-secrets", "--json"], "--show-secrets is for tables"),
    ("ls", SEGMENTS, ["--json", "--segments"], "--segments is a table"),
    ("runs", SEGMENTS, ["--yes"], "--yes needs --purge"),
    ("staging", SEGMENTS, ["--older-than", "3"], "--older-than needs --clear"),
    ("undelete", SEGMENTS, ["--hold"], "--hold is for restoring a topic"),
    ("undelete", SEGMENTS, ["--yes"], "--yes is for restoring a topic"),
    ("undelete", SEGMENTS, ["--topic", "t", "--list", "--at", "5"], "--at cannot be used with it"),
    ("recover", SEGMENTS, ["--dry-run", "--yes"], "--dry-run changes nothing: --yes cannot be used with it"),
    ("recover", SEGMENTS, ["--dry-run", "--quarantine", "x"], "--dry-run changes nothing"),
    ("recover", SEGMENTS, ["--into", "x", "--complete", "y"], "--complete cannot be used with it"),
    ("compact", SEGMENTS, ["--dry-run", "--yes"], "--dry-run changes nothing"),
    ("ls", SEGMENTS, ["--topic", "orders-23", "--exclude", "ord*"], "everything that was selected is excluded"),
]


@pytest.mark.parametrize(("command", "case", "arguments", "sentence"), REFUSED)
def test_an_option_without_a_meaning_is_refused(command: str, case: str, arguments: list[str], sentence: str) -> None:
    finished = kafkalog(command, place(case), *arguments)
    assert finished.code == 64, finished.err
    told = [{"error": finished.err.removeprefix("kafkalog: ").strip(), "exit_code": 64}]
    assert finished.objects == (told if "--json" in arguments else [])
    assert sentence in finished.err
    assert finished.err.count("\n") == 1


UNKNOWN = [
    (["ls"], SEGMENTS, ["--topic", "order-23"], "there is no topic 'order-23'; did you mean 'orders-23'?"),
    (["verify"], SEGMENTS, ["--topic", "ORDERS-23"], "there is no topic 'ORDERS-23'; did you mean 'orders-23'?"),
    (["plan"], SEGMENTS, ["--topic", "orders-23", "--topic", "zzz*"], "no topic matches 'zzz*'"),
    (["recover", "--yes"], SEGMENTS, ["--topic", "order-23"], "did you mean 'orders-23'?"),
    (["compact", "--dry-run"], SEGMENTS, ["--topic", "order-23"], "did you mean 'orders-23'?"),
    (["index", "verify"], SEGMENTS, ["--partition", "77"], "there is no partition 77 of any topic"),
    (
        ["ls"],
        SEGMENTS,
        ["--topic", "orders-23", "--partition", "77"],
        "topic 'orders-23' has no partition 77 here; it has partition 0",
    ),
    (["ls"], SEGMENTS, ["--exclude", "orders"], "there is no topic or partition 'orders'; did you mean 'orders-23'?"),
    (["undelete", "--list"], SEGMENTS, ["--topic", "orders-23"], "there is no deleted topic 'orders-23'"),
    (["transactions"], TXN, ["--topic", "nothing at all"], "there is no topic 'nothing at all'"),
    (["transactions"], TXN, ["--transactional-id", "nobody"], "there is no transactional id 'nobody'"),
    (["offsets"], GROUPS, ["--group", "nobody"], "there is no group 'nobody'"),
    (["offsets"], GROUPS, ["--topic", "nothing at all"], "there is no topic 'nothing at all'"),
    (["groups"], GROUPS, ["--group", "nobody*"], "no group matches 'nobody*'"),
    (["groups"], GROUPS, ["--without", "nobody"], "there is no member 'nobody'"),
    (["groups"], GROUPS, ["--topic", "nothing at all"], "there is no topic 'nothing at all'"),
    (["metadata", "--history"], METADATA, ["--topic", "ticket-0"], "did you mean 'tickets-0'?"),
    (["metadata", "--effective"], METADATA, ["--topic", "ticket-0"], "did you mean 'tickets-0'?"),
    (["metadata", "--effective"], METADATA, ["--broker", "77"], "there is no broker 77"),
    (["elections"], METADATA, ["--topic", "ticket-0"], "did you mean 'tickets-0'?"),
    (["elections"], METADATA, ["--without", "77"], "broker 77 is not registered"),
    (["elections"], ZOOKEEPER, ["--topic", "flight-23"], "did you mean 'flights-23'?"),
    (["zk"], ZOOKEEPER, ["--below", "/broker"], "there is no znode '/broker'; did you mean '/brokers'?"),
    (["offsets"], ZOOKEEPER, ["--chroot", "/elsewhere"], "there is no chroot '/elsewhere'"),
]


@pytest.mark.parametrize(("command", "case", "arguments", "sentence"), UNKNOWN)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_does_not_exist_is_said_not_to(
    command: list[str], case: str, arguments: list[str], sentence: str, as_json: bool
) -> None:
    finished = kafkalog(*command, *arguments, *(["--json"] if as_json else []), place(case))
    assert (finished.code, finished.out) == (1, ""), finished.err
    assert sentence in finished.err
    assert finished.err.count("\n") == 1


def test_patterns_choose_topics() -> None:
    (directory,) = brokers(SEGMENTS)
    every = {each["topic"] for line in kafkalog("ls", "--json", directory).objects for each in line["partitions"]}
    assert len(every) > 3
    for words, expected in (
        (["--topic", "orders-*"], {name for name in every if name.startswith("orders-")}),
        (["--topic", "[!_]*", "--exclude", "orders-*"],
         {name for name in every if not name.startswith(("_", "orders-"))}),
        (["--partition", "0", "--exclude", "*-0"], every),
    ):  # fmt: skip
        for command in ("ls", "verify"):
            finished = kafkalog(command, "--json", directory, *words)
            if words[0] == "--partition":
                assert finished.code == 64
                continue
            (line,) = finished.objects
            names = {Path(each["path"]).name.rpartition("-")[0] for each in line["partitions"]}
            assert names == expected


def test_a_volume_that_holds_nothing_of_what_is_chosen_is_passed_over(tmp_path: Path) -> None:
    one = own_copy(brokers(SEGMENTS)[0], tmp_path / "one")
    other = own_copy(brokers(SEGMENTS)[0], tmp_path / "other")
    topic = next(each for each in one.glob("orders-*-0")).name
    for each in [*one.glob("*-0")]:
        if each.name != topic:
            shutil.rmtree(each)
    shutil.rmtree(other / topic)
    name = topic.removesuffix("-0")
    for command in ("ls", "verify", "plan"):
        lines = kafkalog(command, "--json", one, other, "--topic", name).objects
        assert [line["path"] for line in lines] == [str(one)]
    assert kafkalog("recover", "--json", "--yes", one, other, "--topic", name).code in (0, 2)
    nowhere = kafkalog("recover", "--json", "--yes", one, other, "--topic", "nowhere")
    assert (nowhere.code, nowhere.out, nowhere.err) == (1, "", "kafkalog: there is no topic 'nowhere'\n")


def test_short_forms_are_those_of_kcat() -> None:
    """-t and -p in every command that has the long ones."""
    shorts = {"--topic": "-t", "--partition": "-p"}
    found = {(name, word): shorts[word] in option.opts for name, option in options() for word in option.opts
             if word in shorts and not option.hidden}  # fmt: skip
    assert len(found) > 20
    assert {key for key, has in found.items() if not has} == set()


def test_metadata_of_one_topic() -> None:
    (name,) = kafkalog("ls", "--json", "--topic", "orders-*", place(SEGMENTS)).objects[0]["partitions"]
    everything = kafkalog("metadata", "--json", place(SEGMENTS)).objects[0]
    for words in (["-t", "orders-*"], ["--topic", name["topic"]], ["-t", name["topic"], "-p", "0"]):
        (line,) = kafkalog("metadata", "--json", *words, place(SEGMENTS)).objects
        assert list(line["topics"]) == [name["topic"]]
        assert {each for each in line["configs"] if each.startswith("topic:")} == {f"topic:{name['topic']}"}
        assert {**line, "topics": 0, "configs": 0} == {**everything, "topics": 0, "configs": 0}
        shown = kafkalog("metadata", *words, place(SEGMENTS)).out
        assert name["topic"] in shown
        assert "sessions" not in shown
        assert "brokers" not in shown
    finished = kafkalog("metadata", "-t", "order-23", place(SEGMENTS))
    assert (finished.code, "did you mean 'orders-23'?" in finished.err) == (1, True)


@pytest.mark.parametrize("command", ["recover", "plan"])
def test_the_mode_completes(command: str) -> None:
    (mode,) = [option for name, option in options() if name == command and "--mode" in option.opts]
    with click.Context(click.Command(command)) as ctx:
        assert [item.value for item in mode.shell_complete(ctx, "s")] == ["safe", "salvage", "strict", "set-aside"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_option_that_takes_one_value_is_not_taken_twice(name: str) -> None:
    """Of two values click uses the last one and says nothing."""
    command = command_of(name)
    commands = [([name], command)]
    if isinstance(command, click.Group):
        commands = [([name, each], subcommand) for each, subcommand in command.commands.items()]
    for words, each in commands:
        for option in each.params:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count):
                refused = kafkalog(*words, option.opts[0], "1", option.opts[0], "2")
                assert refused.code == 64
                assert f"{option.opts[0]} is given 2 times: give it once" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", ".", "--config", "a=1", "--config", "a=2"), "is given two values for a, '1' and '2': give one"),
        (("groups", ".", "--partitions", "t=3", "--partitions", "t=4"), "two values for t, '3' and '4': give one"),
        (("replay", ".", "--bootstrap-server", "x:1", "--rename", "a=b", "--rename", "a=c"), "values for a, 'b' and"),
        (("replay", ".", "--bootstrap-server", "x:1", "--rename", "a="), "--rename needs OLD=NEW, not 'a='"),
    ],
)
def test_a_name_has_one_value(words: tuple[str, ...], said: str) -> None:
    refused = kafkalog(*words)
    assert refused.code == 64
    assert said in " ".join(refused.err.split())
