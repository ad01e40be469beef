"""The command around its subcommands: exit codes, one sentence for an error, nothing loaded that is not needed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.cli.main import COMMANDS
from kafkalog.codec.common.errors import ReplicaError
from kafkalog.log.directories.inventory import open_all
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode
from testkit.recorded.broker_dirs import STOPPED, brokers, expected_offsets, own_copy, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_case
from testkit.running.command import kafkalog

TXN = "4.1.1/txn"
SEGMENTS = "4.1.1/segments"
SOURCE = Path(library.__file__).resolve().parents[1]


def python(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)


def partition_dir(topic: str, number: int = 0, case: str = SEGMENTS) -> Path:
    return brokers(case)[0] / f"{topic}-{number}"


def test_help_names_every_command_and_loads_none() -> None:
    program = (
        "import sys; from kafkalog.cli.main import run; code = run(['--help']);"
        "loaded = [name for name in sys.modules if name.split('.')[0] in ('construct', 'rich', 'numpy', 'pyarrow')"
        " or name.startswith(('kafkalog.codec', 'kafkalog.log')) and "
        "not name.endswith(('codec', 'codec.common', 'lazily'))];"
        "print(loaded, code)"
    )
    finished = python("-c", program)
    assert finished.stdout.splitlines()[-1] == "[] 0"
    for name in COMMANDS:
        assert f"  {name} " in finished.stdout


def test_importing_the_library_loads_nothing_heavy() -> None:
    program = (
        "import sys, kafkalog; heavy = ('click', 'construct', 'numpy', 'rich');"
        "print(sorted(name for name in sys.modules if name.startswith('kafkalog.') or name in heavy))"
    )
    loaded = ["kafkalog.codec", "kafkalog.codec.common", "kafkalog.codec.common.lazily"]
    assert python("-c", program).stdout.strip() == str(loaded)


@pytest.mark.parametrize("name", vars(library)["__all__"])
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(library, name) is not None
    assert name in dir(library)


def test_there_is_no_public_name_by_accident() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(library, "nothing")  # noqa: B009 - type checkers know that it is not there


def test_the_version_is_that_of_the_project() -> None:
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert f'version = "{library.__version__}"' in project
    assert kafkalog("--version").out == f"kafkalog {library.__version__}\n"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_command_has_help(command: str) -> None:
    finished = kafkalog(command, "--help")
    assert finished.code == 0
    assert finished.out.startswith(f"Usage: kafkalog {command} [OPTIONS]")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["frobnicate"], "there is no command 'frobnicate'"),
        (["verfy"], "there is no command 'verfy'; did you mean 'verify'?"),
        (["dump"], "Missing argument 'PATH...'"),
        (["dump", "--isolation-level", "dirty", "."], "'dirty' is not one of"),
        (["dump", "--start-time", "yesterday", "."], "neither milliseconds since 1970 nor an ISO 8601 time"),
        (["dump", "--value-regex", "(", "."], "is not a regular expression"),
        (["dump", "no/such/place"], "no/such/place does not exist"),
        (["dump", "no/such/00000000000000000000.index"], "does not exist"),
        (["ls", "no/such/place"], "no/such/place does not exist"),
        (["ls", __file__], "is not a segment"),
        (["ls", str(Path(__file__).parent)], "is not a Kafka log directory: it holds no partition and no segment"),
    ],
)
def test_a_mistake_is_one_sentence_and_64(arguments: list[str], sentence: str) -> None:
    finished = kafkalog(*arguments)
    assert finished.code == 64
    assert finished.out == ""
    assert finished.err.startswith("kafkalog: ")
    assert sentence in finished.err
    assert finished.err.count("\n") == 1


def test_no_arguments_show_the_help_and_are_a_mistake() -> None:
    finished = kafkalog()
    assert (finished.code, finished.out) == (64, "")
    assert "Usage: kafkalog" in finished.err


def test_replicas_are_refused_with_both_paths_and_can_be_chosen() -> None:
    root = unpacked("2.8.2/zkhist")
    finished = kafkalog("dump", "--json", root)
    assert finished.code == 64
    for broker in brokers("2.8.2/zkhist"):
        assert f"{broker}/" in finished.err
    assert finished.err.endswith("; choose one with --replica longest or its path\n")
    with pytest.raises(ReplicaError, match="choose one with replica='longest' or its path"):
        open_all(root).readable()
    assert "; --replica elsewhere chooses 0 of them" in kafkalog("dump", "--replica", "elsewhere", root).err
    chosen = kafkalog("dump", "--json", "--replica", "longest", root)
    assert chosen.code == 0
    assert (
        len(chosen.objects) == len({(line["topic"], line["partition"], line["offset"]) for line in chosen.objects}) > 0
    )
    assert kafkalog("ls", root).code == 0


def test_a_read_error_is_4_and_names_file_and_position(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int, length: object, position: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", broken)
    monkeypatch.setattr(os, "preadv", broken)
    directory = partition_dir("orders-23")
    for command in ("ls", "dump"):
        finished = kafkalog(command, directory / "00000000000000000180.log")
        assert finished.code == 4
        assert finished.err.count("\n") == 1
        assert finished.err == (
            f"kafkalog: error: unreadable ({directory}/00000000000000000180.log): "
            "cannot read at byte 0: Input/output error\n"
        )


def test_an_error_of_the_operating_system_is_4(tmp_path: Path) -> None:
    fifo = tmp_path / "00000000000000000000.index"
    os.mkfifo(fifo)
    finished = kafkalog("dump", fifo)
    assert finished.code == 4
    assert finished.err == f"kafkalog: error: unreadable ({fifo}): a FIFO, not a file\n"


def test_debug_shows_where_an_error_came_from() -> None:
    finished = kafkalog("--debug", "ls", "no/such/place")
    assert finished.code == 64
    assert "Traceback" in finished.err
    assert "Traceback" not in kafkalog("ls", "no/such/place").err


def test_damage_is_a_sentence_on_standard_error_and_1(tmp_path: Path) -> None:
    directory = own_copy(partition_dir("orders-23"), tmp_path / "orders-23-0")
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    for command in ("ls", "dump"):
        finished = kafkalog(command, directory)
        assert finished.code == 1
        assert finished.err.startswith(f"kafkalog: warning: torn_tail ({last}, byte ")
        assert finished.err.count("\n") == 1


def shell(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`$0` is Python, and the words are `"$@"`."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = ["bash", "-c", script, sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_closed_pipe_is_quiet() -> None:
    finished = shell('"$0" -m kafkalog dump --all "$@" | head -n 1; echo ${PIPESTATUS[0]}', str(brokers(TXN)[0]))
    assert finished.stderr == ""
    assert finished.stdout.splitlines()[0].startswith("Dumping ")


@pytest.mark.parametrize("redirected", [">&-", ">/dev/full", "<&- >&- 2>/dev/full", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["--version", "ls --help", "ls --json", "dump --json", "verify", "plan"])
def test_an_output_that_takes_nothing_is_one_sentence(words: str, redirected: str) -> None:
    directory = "" if words.startswith("-") or words.endswith("help") else str(brokers(TXN)[0])
    finished = shell(f'"$0" -m kafkalog {words} "$@" {redirected}', *filter(None, [directory]))
    assert finished.returncode == ExitCode.IO_ERROR
    if "2>" in redirected:
        assert finished.stderr == ""
    else:
        why = "No space left on device" if "full" in redirected else "Bad file descriptor"
        assert finished.stderr.startswith("kafkalog: ")
        assert finished.stderr.endswith(f"{why}\n")
        assert finished.stderr.count("\n") == 1
        assert "standard output: " in finished.stderr or not directory


def test_no_file_gets_the_number_of_a_closed_output() -> None:
    program = "import os; from kafkalog import __main__ as m; m._take_closed_descriptors(); os._exit(os.open('/', 0))"
    assert shell('"$0" -c "$1" <&- >&- 2>&-', program).returncode == 3


def test_filters() -> None:
    broker = brokers(TXN)[0]
    everything = kafkalog("dump", "--json", "--encoding", "base64", broker, "--topic", "sensors-0").objects
    assert {line["topic"] for line in everything} == {"sensors-0"}

    def dump(*arguments: object) -> list[dict[str, object]]:
        return kafkalog("dump", "--json", "--encoding", "base64", broker, "--topic", "sensors-0", *arguments).objects

    assert dump("--partition", 1) == [line for line in everything if line["partition"] == 1]
    assert dump("--start-offset", 10, "--end-offset", 20) == [line for line in everything if 10 <= line["offset"] < 20]
    middle = everything[len(everything) // 2]["timestamp"]
    assert dump("--start-time", middle) == [line for line in everything if line["timestamp"] >= middle]
    assert dump("--end-time", middle) == [line for line in everything if line["timestamp"] < middle]
    assert dump("--key", "k42") == [line for line in everything if line["key"] == "azQy"] != []
    assert dump("--header", "trace") == [line for line in everything if "trace" in dict(line["headers"])] != []
    assert dump("--header", "nothing") == []
    assert dump("-n", 7) == everything[:7]
    found = kafkalog("dump", "--json", broker, "--topic", "sensors-0", "--value-regex", "^hotel").objects
    assert found
    assert all(line["value"].startswith("hotel") for line in found)
    producers = [
        {line["offset"] for line in dump("--producer-id", number, "--partition", 0)} for number in (0, 1, 2, 9)
    ]
    assert producers[3] == set()
    assert set.union(*producers) <= {line["offset"] for line in everything if line["partition"] == 0}
    assert not producers[0] & producers[1]
    assert dump("--producer-id", 0, "--producer-id", 1, "--partition", 0) == [
        line for line in everything if line["partition"] == 0 and line["offset"] in producers[0] | producers[1]
    ]
    some = dump("--transactional")
    assert some
    assert dump("--not-transactional") == [line for line in everything if line not in some]
    by_codec = {codec: dump("--codec", codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    assert sum(map(len, by_codec.values())) == len(everything)
    assert sum(map(bool, by_codec.values())) > 1
    both = dump("--codec", "zstd", "--codec", "none")
    assert both == [line for line in everything if line in by_codec["zstd"] or line in by_codec["none"]]
    words = ("dump", "--json", "--batches", "--topic", "sensors-0", broker)
    batches = kafkalog(*words, "--codec", "none").objects
    assert {line["compresscodec"] for line in batches} == {"none"}
    assert len(batches) == [line["compresscodec"] for line in kafkalog(*words).objects].count("none")


def test_text_that_is_not_utf8_gets_a_sibling() -> None:
    broker = brokers(TXN)[0]
    plain = kafkalog("dump", "--json", broker, "--topic", "sensors-0").objects
    encoded = kafkalog("dump", "--json", "--encoding", "base64", broker, "--topic", "sensors-0").objects
    assert len(plain) == len(encoded)
    siblings = 0
    for text, raw in zip(plain, encoded, strict=True):
        for name in ("key", "value"):
            if f"{name}_b64" in text:
                siblings += 1
                assert text[name] is None
                assert text[f"{name}_b64"] == raw[name]
            else:
                assert (text[name] is None) == (raw[name] is None)
        if "headers_b64" in text:
            assert text["headers"] is None
            assert text["headers_b64"] == raw["headers"]
    assert siblings > 0


def test_control_characters_cannot_reach_a_terminal() -> None:
    assert escape_controls("a\x1b[31m\x00\u202e\u2028\udcff\x9b") == "a\\x1b[31m\\x00\\u202e\\u2028\\xff\\x9b"
    assert escape_controls("ключ 日本語 🚀") == "ключ 日本語 🚀"
    finished = kafkalog("dump", "--all", brokers(TXN)[0])
    assert finished.code == 0
    assert not [
        character for character in finished.out.replace("\n", "") if ord(character) < 32 or ord(character) == 127
    ]


def test_a_directory_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    name = "evil\x1b[2J-0"
    shutil.copytree(partition_dir("orders-23"), tmp_path / name)
    finished = kafkalog("ls", tmp_path / name)
    assert finished.code == 0
    assert "\x1b" not in finished.out + finished.err
    assert "\x1b" not in kafkalog("dump", tmp_path / name).out


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_ls_agrees_with_the_broker(case: BrokerCase) -> None:
    wanted = expected_offsets(case, "read_uncommitted")
    seen = set()
    for broker in brokers(case.id):
        finished = kafkalog("ls", "--json", broker)
        assert finished.code == 0, finished.err
        (listing,) = finished.objects
        assert all(found["severity"] == "info" for found in listing["findings"])
        for partition in listing["partitions"]:
            assert partition["health"] == "ok"
            assert partition["bytes"] == sum(segment["bytes"] for segment in partition["segments"])
            key = (partition["topic"], partition["partition"])
            if key in wanted and partition["state"] == "live":
                seen.add(key)
                assert (partition["log_start_offset"], partition["log_end_offset"]) == wanted[key]
    assert seen == set(wanted)


def test_ls_text_has_a_row_for_every_partition() -> None:
    finished = kafkalog("ls", "--segments", brokers(SEGMENTS)[0])
    assert finished.code == 0
    (listing,) = kafkalog("ls", "--json", brokers(SEGMENTS)[0]).objects
    rows = [line.split() for line in finished.lines]
    for partition in listing["partitions"]:
        assert any(row[:2] == [partition["topic"], str(partition["partition"])] for row in rows)
        for segment in partition["segments"]:
            assert any(row[:1] == [str(segment["base_offset"])] for row in rows)


def test_checkpoints_and_metadata_files_are_dumped() -> None:
    broker = brokers(SEGMENTS)[0]
    assert kafkalog("dump", "--json", broker / "log-start-offset-checkpoint").objects == [
        {"topic": "invoices-25", "partition": 0, "offset": 97}
    ]
    (meta,) = kafkalog("dump", "--json", broker / "meta.properties").objects
    assert meta["node.id"] == "12"
    (epoch, *_) = kafkalog("dump", "--json", broker / "__cluster_metadata-0" / "leader-epoch-checkpoint").objects
    assert epoch == {"epoch": 1, "startOffset": 0}
    elected = broker / "__cluster_metadata-0" / "quorum-state"
    assert kafkalog("dump", "--json", elected).objects == [json.loads(elected.read_text())]
    text = kafkalog("dump", broker / "recovery-point-offset-checkpoint").lines
    count = int((broker / "recovery-point-offset-checkpoint").read_text().splitlines()[1])
    assert len(text) == count + 1


def test_a_damaged_snapshot_is_a_finding(tmp_path: Path) -> None:
    source = next(path for path in sorted(brokers(TXN)[0].rglob("*.snapshot")) if path.stat().st_size > 10)
    data = bytearray(source.read_bytes())
    data[-1] ^= 1
    target = tmp_path / source.name
    target.write_bytes(data)
    finished = kafkalog("dump", target)
    assert finished.code == 1
    assert "snapshot_invalid" in finished.err
    assert kafkalog("dump", source).code == 0


def test_control_records_say_what_they_are() -> None:
    case = broker_case("4.1.1", "txn")
    lines = kafkalog("dump", "--json", "--all", brokers(case.id)[0], "--topic", "sensors-0").objects
    markers = {line.get("endTxnMarker") for line in lines}
    assert markers == {None, "COMMIT", "ABORT"}
    consumer = kafkalog("dump", "--json", brokers(case.id)[0], "--topic", "sensors-0").objects
    assert not [line for line in consumer if "endTxnMarker" in line]
    assert json.dumps(consumer[0]).startswith('{"topic": "sensors-0", "partition": 0, "offset": 0, "timestamp": ')
