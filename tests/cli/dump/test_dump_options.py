"""What `kafkalog dump` shows of records beside their data, what it decodes, and what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.cli.dump.patterns import Pattern, searching
from kafkalog.codec.common.errors import UsageError
from testkit.made.batches import message
from testkit.recorded.broker_dirs import brokers
from testkit.running.command import kafkalog

BROKER = brokers("4.1.1/txn")[0]
SENSORS = ("-t", "sensors-0", "-p", "0")
LOG = BROKER / "sensors-0-0" / "00000000000000000000.log"


@pytest.mark.parametrize(("options", "why"), [
    (["--batches", "--value-regex", "x"], "--value-regex has no effect with --batches"),
    (["--batches", "--key", "x"], "--key has no effect with --batches"),
    (["--batches", "--redact"], "--redact has no effect with --batches"),
    (["--batches", "--metadata"], "--metadata has no effect with --batches"),
    (["--batches", "--isolation-level", "read_committed"], "--isolation-level has no effect with --batches"),
    (["--parquet", "x", "--json"], "--json has no effect for a file of columns"),
    (["--parquet", "x", "--arrow", "y"], "--arrow has no effect with --parquet"),
    (["--parquet", "x", "--batches"], "--batches has no effect for a file of columns"),
    (["--encoding", "base64"], "--encoding has no effect without --json"),
    (["--encoding", "base64", "--batches"], "--encoding has no effect without --json"),
    (["--offset", "3", "--end-offset", "9"], "--end-offset has no effect with --offset"),
    (["--redact", "--no-decode"], "--no-decode has no effect with --redact"),
    (["--no-decode", "--show-secrets"], "--show-secrets has no effect with --no-decode"),
    (["--print-data-log", "--json"], "--json has no effect for what kafka-dump-log prints"),
    (["--offsets-decoder", "--transaction-log-decoder"], "cannot both say what the records are"),
    (["--offsets-decoder", "--key-decoder-class", "Long"], "cannot both say what the records are"),
    (["--skip-record-metadata"], "--skip-record-metadata needs --print-data-log"),
    (["--print-data-log", "--key-decoder-class", "com.example.Mine"], "no decoder class 'com.example.Mine'"),
    (["--verify-index-only", "--index-sanity-check"], "cannot be used together"),
    *([["--deep-iteration", *more], f"{more[0]} has no effect"] for more in (["--all"], ["--verify-index-only"],
      ["--index-sanity-check"], ["--max-message-size", "9"], ["--show-secrets"])),
    (["--print-data-log", "-o", "e@5"], "-o e@MS has no effect for what kafka-dump-log prints"),
    *([["--files", str(LOG), *more], f"{more[0]} has no effect without records"] for more in (["--key", "x"],
      ["--key-regex", "x"], ["--value-regex", "x"], ["--header", "x"], ["--header-regex", "x=y"], ["--start-time", "5"],
      ["--end-time", "5"], ["--redact"], ["--metadata"])),
    (["--json", "--batches", "--encoding", "base64"], "--encoding has no effect with --batches"),
    (["--redact", "-s", "s"], "-s has no effect with --redact"),
    (["-p", "-1", "-p", "0"], "-p -1 means every partition"),
    (["--header-regex", "name"], "is not NAME=REGEX"),
    (["--parquet", ""], "need the name of a file"),
    (["--offset", "9" * 30], "is not a whole number from"),
    (["--start-offset", "9" * 30], "is not a whole number from"),
    (["--at", "5"], "--at has no effect without --since or --until"),
    (["--server-properties", "pyproject.toml"], "replaces PATH"),
    (["--key-regex", "("], "'(' is not a regular expression"),
    (["--value-regex", "(" * 20_000], "is not a regular expression"),
    (["--value-regex", "a{99999999999999999999}"], "is not a regular expression"),
])  # fmt: skip
def test_refusals(options: list[str], why: str) -> None:
    finished = kafkalog("dump", BROKER, *options)
    assert finished.code == 64
    assert finished.out == "" or (finished.objects[0]["exit_code"] == 64 and "--json" in options)
    assert why in finished.err
    assert finished.err.count("\n") == 1


@pytest.mark.parametrize("options", [["--key", "x"], ["--since", "5"], ["--start-offset", "5"], ["--redact"], ["--all"],
                                     ["-t", "sensors-0"], ["--metadata"]], ids=" ".join)  # fmt: skip
def test_filters_on_other_files_are_refused(options: list[str]) -> None:
    finished = kafkalog("dump", LOG.with_suffix(".index"), *options)
    assert finished.code == 64
    assert "has no effect for indexes, snapshots and checkpoints" in finished.err


def test_a_topic_that_is_not_there() -> None:
    finished = kafkalog("dump", BROKER, "--topic", "sensor-0")
    assert finished.code == 1
    assert finished.out == ""
    assert finished.err == "kafkalog: there is no topic 'sensor-0'; did you mean 'sensors-0'?\n"
    assert kafkalog("dump", BROKER, "--topic", "nothing*").code == 1


def test_globs_and_exclusion() -> None:
    def places(*options: str) -> set[tuple[str, int]]:
        return {(line["topic"], line["partition"]) for line in kafkalog("dump", "--json", BROKER, *options).objects}

    both = {("sensors-0", 0), ("sensors-0", 1), ("sensors-22", 0)}
    assert places("-t", "sensors*") == both
    assert places("-t", "sensors*", "--exclude", "sensors-0-1") == both - {("sensors-0", 1)}
    assert places("-t", "sensors*", "--exclude", "sensors-0") == {("sensors-22", 0)}
    assert places("-t", "sensors*", "-p", "-1") == places("-t", "sensors*", "-p", "-1", "-p", "-1") == both


def test_one_offset() -> None:
    for offset in (0, 5, 104):
        found = kafkalog("dump", "--json", BROKER, *SENSORS, "--offset", offset).objects
        assert [line["offset"] for line in found] == [offset]
    assert kafkalog("dump", "--json", BROKER, *SENSORS, "--offset", 4000).out == ""


def test_metadata_is_what_the_batches_say() -> None:
    batches = kafkalog("dump", "--json", "--batches", BROKER, *SENSORS).objects
    plain = kafkalog("dump", "--json", BROKER, *SENSORS).objects
    lines = kafkalog("dump", "--json", "--metadata", BROKER, *SENSORS).objects
    names = ("producerId", "producerEpoch", "partitionLeaderEpoch", "isTransactional", "compresscodec", "magic",
             "baseOffset", "position")  # fmt: skip
    of = {offset: batch for batch in batches for offset in range(batch["baseOffset"], batch["lastOffset"] + 1)}
    assert len(lines) == len(plain) > 50
    for line, without in zip(lines, plain, strict=True):
        batch = of[line["offset"]]
        assert {name: line.pop(name) for name in names} == {name: batch[name] for name in names}
        first = batch["baseSequence"]
        wanted = first + line["offset"] - batch["baseOffset"] if first >= 0 else -1
        assert line.pop("sequence") == wanted
        assert line == without
    text = kafkalog("dump", "--metadata", BROKER, *SENSORS).lines[2]
    assert f" producerId: {batches[0]['producerId']} producerEpoch: 0 partitionLeaderEpoch: 0 " in text
    assert " compresscodec: none magic: 2 baseOffset: 0 position: 0 " in text


def test_regular_expressions() -> None:
    lines = kafkalog("dump", "--json", BROKER, *SENSORS).objects

    def offsets(*options: str) -> list[int]:
        return [line["offset"] for line in kafkalog("dump", "--json", BROKER, *SENSORS, *options).objects]

    keyed = [line["offset"] for line in lines if (line["key"] or "").startswith("k")]
    assert offsets("--key-regex", "^k") == keyed != []
    traced = [line["offset"] for line in lines if "trace" in dict(line["headers"] or [])]
    some = offsets("--header-regex", "trace=.")
    assert set(traced) <= set(some)
    assert offsets("--header-regex", "trace=^$") == []
    assert offsets("--header-regex", "nothing=.") == []


@pytest.mark.parametrize("bomb", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){25}$"])
def test_an_expression_that_takes_for_ever_is_ended(bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.cli.dump.patterns.SECONDS", 0.05)
    with library.Log.open(tmp_path / "t-0") as log:
        log.append([library.NewRecord(value=b"a" * 5000 + b"!", key=b"k")])
    finished = kafkalog("dump", tmp_path / "t-0", "--value-regex", bomb)
    assert finished.code == 64
    assert "takes more than 0.05 s of processor time on 5001 bytes" in finished.err
    assert finished.err.count("\n") == 1


def test_the_timer_is_given_back() -> None:
    import signal

    before = signal.getsignal(signal.SIGVTALRM)
    with searching():
        assert Pattern("a").found_in(b"cab")
        assert not Pattern("a").found_in(None)
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0
    assert signal.getsignal(signal.SIGVTALRM) == before
    with pytest.raises(UsageError, match="is not a regular expression"):
        Pattern("[")


def test_internal_topics_are_decoded() -> None:
    for topic, key in (("__consumer_offsets", "group"), ("__transaction_state", "transactionalId")):
        lines = kafkalog("dump", "--json", BROKER, "-t", topic).objects
        assert lines
        assert all(key in line["decoded"]["key"]["data"] for line in lines)
        raw = kafkalog("dump", "--json", "--no-decode", BROKER, "-t", topic).objects
        assert [{**line, "decoded": None} for line in raw] == [{**line, "decoded": None} for line in lines]
        assert all("decoded" not in line for line in raw)
        encoded = kafkalog("dump", "--json", "--encoding", "base64", BROKER, "-t", topic).objects
        assert set(encoded[0]) == {
            "topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch",
        }  # fmt: skip
        texts = kafkalog("dump", BROKER, "-t", topic).lines
        assert sum(f'"{key}":"' in line for line in texts) == len(lines)
        assert not any(f'"{key}":"' in line for line in kafkalog("dump", "--no-decode", BROKER, "-t", topic).lines)
    metadata = kafkalog("dump", "--json", "--all", BROKER, "-t", "__cluster_metadata").objects
    kinds = {line["decoded"]["value"].get("type") for line in metadata if line.get("decoded")}
    assert {"TOPIC_RECORD", "PARTITION_RECORD"} <= kinds
    assert "LeaderChange" in metadata[0]["decoded"]["value"]


def test_secrets_of_the_metadata_are_hidden() -> None:
    broker = brokers("4.1.1/metadata")[0]
    decoder = ["-t", "__cluster_metadata", "--all"]
    hidden = kafkalog("dump", broker, *decoder).out
    shown = kafkalog("dump", broker, *decoder, "--show-secrets").out
    assert "[hidden]" in hidden
    assert "[hidden]" not in shown
    assert len(hidden.splitlines()) == len(shown.splitlines())


MARK = b"secret-"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    with library.Log.open(root / "t-0") as log:
        for number in range(20):
            data = MARK + b"%d" % (number % 5)
            log.append([library.NewRecord(value=data, key=data, headers=[("name", data), ("null", None)])])
    return root


@pytest.mark.parametrize("form", [
    [], ["--json"], ["--json", "--encoding", "base64"], ["--metadata"], ["--json", "--metadata"], ["-J"],
    ["-f", "%k %s %h\\n"], ["-C"], ["--print-data-log"], ["--all"], ["--all", "--json"],
])  # fmt: skip
def test_nothing_plain_is_left_of_what_is_redacted(secrets: Path, form: list[str]) -> None:
    plain = kafkalog("dump", secrets, *form)
    finished = kafkalog("dump", secrets, "--redact", *form)
    assert finished.code == 0, finished.err
    forms = [MARK.decode(), *(base64.b64encode(MARK + b"%d" % n).decode()[:9] for n in range(5))]
    assert any(each in plain.out for each in forms)
    assert not any(each in finished.out for each in forms)
    assert len(finished.lines) == len(plain.lines)


@pytest.mark.parametrize("form", [["--print-data-log"], ["--deep-iteration"], [], ["--json"]], ids=" ".join)
def test_no_checksum_is_left_of_what_is_redacted(form: list[str], secrets: Path) -> None:
    log = secrets / "t-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    batches = kafkalog("dump", secrets, "--batches", "--json").objects
    plain = kafkalog("dump", secrets, *form)
    finished = kafkalog("dump", secrets, "--redact", *form)
    assert finished.code == plain.code == 1
    assert re.search("stored checksum 0x[0-9a-f]{8}, computed 0x[0-9a-f]{8}", plain.err)
    assert not re.search("0x[0-9a-f]{8}", finished.err)
    assert "the checksum does not match the bytes" in finished.err
    assert len(finished.lines) == len(plain.lines)
    shown = finished.out + finished.err
    assert not any(f"crc: {batch['crc']}" in shown for batch in batches)
    if form and form != ["--json"]:
        assert finished.out.count(" crc: redacted") == 20


def test_nor_is_one_of_an_old_message(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(message())
    plain = kafkalog("dump", tmp_path / "t-0", "--print-data-log")
    redacted = kafkalog("dump", tmp_path / "t-0", "--print-data-log", "--redact")
    assert len(re.findall(r"crc: [0-9]+", plain.out)) == 2
    assert len(re.findall(r"crc: redacted", redacted.out)) == 2
    assert not re.search(r"crc: [0-9]", redacted.out)


def test_equal_values_stay_recognizable(secrets: Path) -> None:
    lines = kafkalog("dump", "--json", "--redact", secrets).objects
    values = [line["value"] for line in lines]
    assert len(set(values)) == 5
    assert values[:5] == values[5:10]
    assert all(value.startswith("[8 bytes #") for value in values)
    assert lines[0]["key"] == values[0]
    assert lines[0]["headers"] == [["name", values[0]], ["null", None]]
    again = [line["value"] for line in kafkalog("dump", "--json", "--redact", secrets).objects]
    assert not set(again) & set(values), "every run draws its own salt"
    sizes = kafkalog("dump", "--redact", secrets, "-f", "%K %S %R|").out
    assert sizes.startswith("8 8 \0\0\0\x08|")
    text = kafkalog("dump", "--redact", secrets).lines[2]
    assert "keySize: 8 valueSize: 8 " in text
    found = kafkalog("dump", "--json", "--redact", secrets, "--key", "secret-3").objects
    assert [line["offset"] for line in found] == [3, 8, 13, 18], "filters see what is redacted"


def test_files_of_several_kinds_are_printed_in_their_order() -> None:
    index = LOG.with_suffix(".index")
    for files in ([LOG, index], [index, LOG]):
        lines = kafkalog("dump", "--files", ",".join(map(str, files))).lines
        assert [line.removeprefix("Dumping ") for line in lines if line.startswith("Dumping")] == list(map(str, files))


def test_records_before_a_wrapper_in_a_wrapper_are_printed(tmp_path: Path) -> None:
    inner = message(0) + message(1, attributes=1, value=gzip.compress(message(0)))
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(message(1, attributes=1, value=gzip.compress(inner)))
    ran = kafkalog("dump", "--print-data-log", log)
    assert [line[:12] for line in ran.lines if line.startswith("| ")] == ["| offset: 0 "]
    assert f"message_invalid ({log}, byte 0, offset 1" in ran.err


def test_json_of_named_files_is_that_of_paths() -> None:
    assert kafkalog("dump", "--json", "--files", LOG) == kafkalog("dump", "--json", LOG)
    assert json.loads(kafkalog("dump", "--json", "--batches", "--files", LOG).lines[0])["baseOffset"] == 0


def test_filters_hold_beneath_batches() -> None:
    found = kafkalog("dump", BROKER, *SENSORS, "--print-data-log", "--offset", 5).lines
    assert sum(line.startswith("| offset: 5 ") for line in found) == 1
    assert sum(line.startswith("| ") for line in found) == 1
    assert sum(line.startswith("baseOffset: ") for line in found) == 1
    some = kafkalog("dump", BROKER, *SENSORS, "--print-data-log", "--key-regex", "^k", "-c", "4").lines
    assert sum(line.startswith("| ") for line in some) == 4


def test_the_version() -> None:
    assert kafkalog("-V").out == kafkalog("--version").out == f"kafkalog {library.__version__}\n"
