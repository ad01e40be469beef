"""Every `contents` against what Kafka's own clients and tools said of the same directories."""

from __future__ import annotations

import base64
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import UNSET, Struct, UnsetType
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, StructType

import kafkalog
from kafkalog.cluster.zookeeper.node_lines import ZkLine
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import BatchOutline, Finding, FindingCode, FindingJson, Severity
from kafkalog.codec.common.shapes import shaped
from kafkalog.spark import contents_files, fleet
from kafkalog.spark.batch_contents import batches_of
from kafkalog.spark.contents_reader import ContentsReader
from kafkalog.spark.contents_rows import arrow_batches
from kafkalog.spark.contents_schema import SCHEMAS, chosen
from kafkalog.spark.options import CONTENTS, RECORDS, parse_options
from kafkalog.spark.struct_columns import struct_of
from testkit.judging.executions import choose_execution
from testkit.made import batches
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog as command

Note = Callable[[str, int], None]
Row = dict[str, Any]


def milliseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    gone = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (gone.days * 86400 + gone.seconds) * 1000 + gone.microseconds // 1000


def table(path: Path | list[Path], contents: str, schema: StructType | None = None, **options: str) -> pa.Table:
    """What a query gives."""
    paths = path if isinstance(path, list) else [path]
    given = {"paths": json.dumps([str(each) for each in paths]), "contents": contents, **options}
    schema = chosen(schema or SCHEMAS[contents], contents)
    reader = ContentsReader(parse_options(given), schema)
    arrow = to_arrow_schema(schema, timezone="UTC")
    found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert all(batch.schema.equals(arrow) for batch in found)
    return pa.Table.from_batches(found, arrow)


def rows(path: Path | list[Path], contents: str, schema: StructType | None = None, **options: str) -> list[Row]:
    """The same as rows, timestamps as milliseconds."""
    found: list[Row] = table(path, contents, schema, **options).to_pylist()
    for row in found:
        row.update({name: milliseconds(value) for name, value in row.items() if isinstance(value, datetime)})
    return found


def dumped(case_id: str, name: str) -> dict[str, list[str]]:
    """Lines of Kafka's dump tool by file."""
    version, _, case = case_id.partition("/")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in broker_case(version, case).expected_text(name).split("\n"):
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        elif line.startswith("[stderr]"):
            lines = []
        else:
            lines.append(line)
    assert found
    return found


def by_file(found: list[Row], root: Path) -> dict[str, list[Row]]:
    result: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        result[str(Path(row["file"]).relative_to(root))].append(row)
    return result


_WORD = re.compile(r"(\w+): (OptionalLong\[(\d+)\]|OptionalLong\.empty|\S+)")


def words_of(line: str) -> Row:
    """The words of a line of the dump tool as values."""
    found: Row = {}
    for name, text, number in _WORD.findall(line):
        if number:
            found[name] = int(number)
        elif text == "OptionalLong.empty":
            found[name] = None
        else:
            found[name] = int(text) if re.fullmatch(r"-?\d+", text) else {"true": True, "false": False}.get(text, text)
    return found


@pytest.mark.parametrize("enough_bytes", [0, 2**62])
@pytest.mark.parametrize("case_id", ["4.1.1/txn", "4.3.0/compact", "3.9.1/codecs"])
def test_batches_are_those_of_kafkas_dump_tool(
    case_id: str, enough_bytes: int, compared: Note, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough_bytes)
    root = unpacked(case_id)
    got = by_file(rows(brokers(case_id), "batches"), root)
    for path, lines in dumped(case_id, "dump_logs.txt").items():
        if not path.endswith(".log"):
            continue
        wanted = [words_of(line) for line in lines if re.match(r"baseOffset: -?\d+ lastOffset: ", line)]
        for line in wanted:
            kind = "LogAppendTime" if "LogAppendTime" in line else "CreateTime"
            line["timestamp"], line["timestampType"] = line.pop(kind), int(kind == "LogAppendTime")
        found = [{name: row[name] for name in line} for row, line in zip(got[path], wanted, strict=True)]
        assert found == wanted
        compared("batches as rows", len(wanted))


def strange_batches(choose: random.Random) -> bytes:
    """Batches whose headers hold anything, most of them in order, some of them damaged, and older messages."""
    data, offset, epoch = b"", 0, 0
    for _ in range(choose.randrange(1, 60)):
        if choose.random() < 0.05:
            data += batches.message(offset, magic=choose.choice([0, 1]))
            offset += 1
            continue
        count = choose.choice([1, 1, 7, 1000])
        epoch += choose.random() < 0.2
        times = choose.choice([0, 1_700_000_000_000, -1, 2**63 - 1, -(2**63), 9_223_372_036_854_775])
        made = batches.batch(
            bytes(choose.randrange(40)), count, base_offset=offset, leader_epoch=epoch,
            attributes=choose.choice([0, 1, 4, 8, 16, 48, 64, 5, 7]), base_timestamp=times, max_timestamp=times,
            producer_id=choose.choice([-1, 0, 2**62]), producer_epoch=choose.choice([-1, 0, 32767]),
            base_sequence=choose.choice([-1, 0, 2**31 - 1, 2**31 - 500]),
        )  # fmt: skip
        offset += count + (choose.random() < 0.1)
        if choose.random() < 0.04:
            made = made[:30] + bytes([made[30] ^ 1]) + made[31:]
        data += made
    return data


@pytest.mark.parametrize("seed", range(40))
def test_columns_of_many_batches_are_the_rows_of_each(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(f"columns of batches {seed}")
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(strange_batches(choose))
    columns = [*SCHEMAS["batches"].fields]
    choose.shuffle(columns)
    some = StructType(columns[: choose.randrange(1, len(columns) + 1)])
    tables: list[pa.Table] = []
    findings: list[list[Finding]] = []
    for enough_bytes in (2**62, 0):
        choose_execution(monkeypatch, enough_bytes)
        findings.append([])
        found = batches_of(kafkalog.open_partition(log.parent), some, findings[-1])
        tables.append(pa.Table.from_batches(found, to_arrow_schema(some, timezone="UTC")))
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows
    assert findings[0] == findings[1]


def test_an_entry_of_an_old_format_has_its_offset_as_first_and_last_offset(tmp_path: Path) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(batches.message(5, magic=0) + batches.message(6, magic=1) + batches.batch(b"", 0, base_offset=7))
    found = rows(log.parent, "batches")
    assert [(row["baseOffset"], row["lastOffset"], row["magic"]) for row in found] == [(5, 5, 0), (6, 6, 1), (7, 7, 2)]


FILES = {
    ".index": "offset_index",
    ".timeindex": "time_index",
    ".txnindex": "aborted_transactions",
    ".snapshot": "producer_state",
}


@pytest.mark.parametrize("case_id", ["4.1.1/txn", "4.1.1/segments"])
@pytest.mark.parametrize("suffix", FILES)
def test_index_and_snapshot_entries_are_those_of_kafkas_dump_tool(case_id: str, suffix: str, compared: Note) -> None:
    root = unpacked(case_id)
    got = by_file(rows(brokers(case_id), FILES[suffix]), root)
    entry = re.compile(r"(offset|timestamp|version|producerId): ")
    for path, lines in dumped(case_id, "dump_indexes.txt").items():
        if not path.endswith(suffix) or not any((root / path).read_bytes()):
            continue
        wanted = [words_of(line) for line in lines if entry.match(line)]
        for line in wanted:
            if suffix == ".snapshot" and "timestamp" in line:
                assert line.pop("timestamp") == line["lastTimestamp"]
        found = got.get(path, [])
        assert len(found) == len(wanted)
        assert [{name: row[name] for name in line} for row, line in zip(found, wanted, strict=True)] == wanted
        compared(f"entries of {FILES[suffix]} as rows", len(wanted))


def test_committed_offsets_are_those_of_kafkas_consumer(compared: Note) -> None:
    case = broker_case("4.1.1", "groups")
    got = {(row["group"], row["topic"], row["partition"]): row for row in rows(brokers(case.id), "offsets")}
    wanted = case.expected("committed")
    assert wanted
    for line in wanted:
        assert line.items() <= got[line["group"], line["topic"], line["partition"]].items()
    compared("committed offsets as rows", len(wanted))


def test_groups_are_those_of_kafkas_admin_client(compared: Note) -> None:
    case = broker_case("4.1.1", "groups")
    got = {row["group"]: row for row in rows(brokers(case.id), "groups")}
    wanted = case.expected("groups")
    assert {line["group"] for line in wanted} == {*got}
    for line in wanted:
        group = got[line["group"]]
        assert group["state"] == line["state"]
        members = [(each["memberId"], each["clientId"], each["host"], sorted(each["assignment"]))
                   for each in line["members"]]  # fmt: skip
        assert sorted(
            (each["memberId"], each["clientId"], each["host"], sorted(each["assignment"])) for each in group["members"]
        ) == sorted(members)
        assert [(each["tp"], each["offset"]) for each in group["offsets"]] == [
            (each["tp"], each["offset"]) for each in line["offsets"]
        ]
    compared("groups as rows", len(wanted))


def test_producers_and_transactional_ids_are_those_of_kafkas_admin_client(compared: Note) -> None:
    case = broker_case("4.1.1", "txn")
    found = rows(brokers(case.id), "transactions")
    producers = {(row["topic"], row["partition"], row["producerId"]): row for row in found if row["topic"]}
    ids = {row["transactionalId"]: row for row in found if not row["topic"]}
    wanted = case.expected("producers")
    for line in wanted:
        if "topic" in line:
            row = producers[line["topic"], line["partition"], line["producerId"]]
            names = ("producerEpoch", "lastSequence", "lastTimestamp")
        else:
            row = ids[line["transactionalId"]]
            names = ("state", "producerId", "producerEpoch")
            assert f"[{', '.join(row['partitions'])}]" == line["partitions"]
        assert [row[name] for name in names] == [line[name] for name in names]
    compared("producers and transactional ids as rows", len(wanted))


def test_metadata_records_are_those_of_kafkas_dump_tool(compared: Note) -> None:
    case_id = "4.1.1/txn"
    root = unpacked(case_id)
    got: dict[tuple[str, int], Row] = {}
    for row in rows(brokers(case_id), "metadata"):
        file = Path(row["file"])
        got[file.name if file.suffix else "log", row["offset"]] = row
    count = 0
    for path, lines in dumped(case_id, "dump_cluster_metadata.txt").items():
        name = Path(path).name if path.endswith(".checkpoint") else "log"
        if name.startswith("bootstrap"):
            continue
        assert (root / path).exists()
        for line in lines:
            match = re.match(r"\| offset: (\d+) .*? headerKeys: \[\] (?:payload: (\{.*)|(\w+):? (\{.*))", line)
            if match is None:
                continue
            row = got[name, int(match[1])]
            if match[2]:
                payload = json.loads(match[2])
                assert (row["type"], row["version"], row["isControl"]) == (payload["type"], payload["version"], False)
                data = json.loads(row["data"])
                assert {key: value for key, value in data.items() if value != "[hidden]"} == {
                    key: value for key, value in payload["data"].items() if data[key] != "[hidden]"
                }
            else:
                assert (row["type"], row["isControl"]) == (match[3], True)
                assert json.loads(row["data"]) == json.loads(match[4])
            count += 1
    assert count > 50
    compared("metadata records as rows", count)


def test_znodes_are_those_of_the_live_server(compared: Note) -> None:
    case = broker_case("1.1.1", "segments")
    got = {row["path"]: row for row in rows(unpacked(case.id) / "zookeeper", "znodes")}
    compared_nodes = 0
    for line in case.expected("zk_tree"):
        row = got.get(line["path"])
        if row is None or row["mzxid"] != line["mzxid"] or row["pzxid"] != line["pzxid"]:
            continue  # what the broker's stop changed after the record
        row = {name: row[name] for name in line}
        row["data"] = None if row["data"] is None else base64.b64encode(row["data"]).decode()
        assert row == line
        compared_nodes += 1
    assert compared_nodes > 20
    compared("znodes as rows", compared_nodes)


def test_leader_epochs_and_checkpoints_are_what_the_files_say() -> None:
    (broker,) = brokers("4.1.1/segments")
    found = by_file(rows(broker, "checkpoints"), broker)
    assert {"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} <= {*found}
    for name, got in found.items():
        lines = (broker / name).read_text().splitlines()[2:]
        assert [f"{row['topic']} {row['partition']} {row['offset']}" for row in got] == lines
    epochs = by_file(rows(broker, "leader_epochs"), broker)
    assert epochs
    for name, got in epochs.items():
        lines = (broker / name).read_text().splitlines()[2:]
        assert [f"{row['epoch']} {row['startOffset']}" for row in got] == lines


def test_segments_show_every_replica_and_how_far_each_is_whole(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/segments")
    second = own_copy(broker, tmp_path / "second")
    got = rows([broker, second], "segments")
    files = sorted(str(path) for path in broker.glob("*/*.log"))
    assert sorted(row["file"] for row in got if row["file"].startswith(str(broker))) == files
    assert len(got) == 2 * len(files)
    for row in got:
        assert row["bytes"] == row["validBytes"] == Path(row["file"]).stat().st_size
        assert row["stop"] == "end"
        assert dict(row["files"])[".log"] == row["bytes"]
    with pytest.raises(UsageError, match="replica"):
        rows([broker, second], "batches")


def test_a_damaged_file_fails_the_query_or_is_left_out(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")
    copy = own_copy(broker, tmp_path / "copy")
    whole = len(rows(copy, "producer_state"))
    snapshot = next(path for path in sorted(copy.glob("trades-*/*.snapshot")) if path.stat().st_size > 50)
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)
    with pytest.raises(FormatError, match="mode=PERMISSIVE") as raised:
        rows(copy, "producer_state")
    assert str(snapshot) in str(raised.value)
    with pytest.warns(RuntimeWarning, match="snapshot"):
        assert 0 < len(rows(copy, "producer_state", mode="PERMISSIVE")) < whole


def test_topics_can_be_chosen_and_columns_too() -> None:
    paths = brokers("4.1.1/txn")
    topics = sorted({row["topic"] for row in rows(paths, "leader_epochs")})
    schema = StructType().add("startOffset", LongType()).add("epoch", IntegerType())
    got = rows(paths, "leader_epochs", schema, subscribe=topics[-1])
    assert got
    assert {*got[0]} == {"startOffset", "epoch"}
    everything = rows(paths, "leader_epochs")
    assert [row["startOffset"] for row in got] == [
        row["startOffset"] for row in everything if row["topic"] == topics[-1]
    ]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType().add("nope", LongType()), "contents=batches has no column nope; there are topic"),
        (StructType().add("count", LongType()), "column count is int, not bigint"),
        (StructType().add("count", IntegerType(), nullable=False), "NOT NULL"),
        (StructType(), "no column"),
    ],
)
def test_a_schema_that_contents_has_not_is_refused(schema: StructType, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chosen(schema, "batches")


def test_options_of_records_are_refused_for_other_contents() -> None:
    with pytest.raises(UsageError, match="startingOffsets is for records, and contents is groups"):
        parse_options({"path": "x", "contents": "Groups", "startingOffsets": "earliest"})
    with pytest.raises(UsageError, match="option contents is one of records, batches"):
        parse_options({"path": "x", "contents": "recrods"})
    assert {*SCHEMAS} == {*CONTENTS} - {RECORDS}


def test_contents_that_are_not_there_are_said_so() -> None:
    with pytest.raises(UsageError, match="no partition of __cluster_metadata in"):
        rows(brokers("1.1.1/segments"), "metadata")


def test_absurd_times_and_names_that_are_no_text_do_not_end_a_query() -> None:
    schema = SCHEMAS["metadata"]
    given: list[dict[str, object]] = [{"timestamp": 2**63 - 1, "type": "\udcff", "data": "x"}, {"timestamp": -1}]
    (batch,) = arrow_batches(iter(given), schema)
    assert batch["timestamp"].to_pylist() == [None, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)]
    assert batch["type"].to_pylist() == ["\\udcff", None]


COLUMNS = {
    "batches": (
        "topic:string partition:int file:string position:bigint size:int magic:int baseOffset:bigint "
        "lastOffset:bigint count:int baseSequence:int lastSequence:int producerId:bigint producerEpoch:int "
        "partitionLeaderEpoch:int isTransactional:boolean isControl:boolean deleteHorizonMs:timestamp "
        "timestamp:timestamp timestampType:int compresscodec:string crc:bigint isvalid:boolean"
    ),
    "segments": (
        "topic:string partition:int file:string state:string baseOffset:bigint bytes:bigint validBytes:bigint "
        "stop:string batches:bigint firstOffset:bigint lastOffset:bigint firstTimestamp:timestamp "
        "lastTimestamp:timestamp codecs:map<string,bigint> magics:map<string,bigint> files:map<string,bigint> "
        "findings:array<string>"
    ),
    "findings": (
        "topic:string partition:int file:string code:string severity:string position:bigint offset:bigint "
        "lastOffset:bigint firstUnread:bigint lastUnread:bigint newestBefore:timestamp oldestAfter:timestamp "
        "detail:string"
    ),
    "offset_index": (
        "topic:string partition:int file:string offset:bigint position:bigint"
    ),
    "time_index": (
        "topic:string partition:int file:string timestamp:timestamp offset:bigint"
    ),
    "aborted_transactions": (
        "topic:string partition:int file:string version:int producerId:bigint firstOffset:bigint lastOffset:bigint "
        "lastStableOffset:bigint"
    ),
    "producer_state": (
        "topic:string partition:int file:string producerId:bigint producerEpoch:int coordinatorEpoch:int "
        "currentTxnFirstOffset:bigint lastTimestamp:timestamp firstSequence:int lastSequence:int lastOffset:bigint "
        "offsetDelta:int"
    ),
    "leader_epochs": (
        "topic:string partition:int file:string epoch:int startOffset:bigint"
    ),
    "checkpoints": (
        "file:string topic:string partition:int offset:bigint"
    ),
    "offsets": (
        "group:string topic:string partition:int offset:bigint metadata:string leaderEpoch:int "
        "commitTimestamp:timestamp expireTimestamp:timestamp topicId:string logPartition:int logOffset:bigint "
        "producerId:bigint pending:boolean"
    ),
    "groups": (
        "group:string state:string type:string groupEpoch:int assignor:string members:array<struct<memberId:string,"
        "instance:string,clientId:string,host:string,assignment:array<string>,subscription:array<string>,"
        "rack:string,memberEpoch:int,targetAssignment:array<string>,unresolvedTopicIds:array<string>>> "
        "offsets:array<struct<tp:string,offset:bigint,metadata:string,leaderEpoch:int>> protocolType:string "
        "generation:int leader:string assignmentEpoch:int stateTimestamp:timestamp logPartition:int "
        "expectedPartition:int pendingOffsets:int assignmentAsDerived:boolean derivedAssignment:map<string,"
        "array<string>> assignmentProblems:array<string>"
    ),
    "transactions": (
        "transactionalId:string state:string producerId:bigint producerEpoch:int partitions:array<string> "
        "timeoutMs:int lastUpdateTimestamp:timestamp startTimestamp:timestamp logPartition:int logOffset:bigint "
        "topic:string partition:int lastSequence:int lastTimestamp:timestamp coordinatorEpoch:int "
        "currentTxnStart:bigint hanging:boolean ageMs:bigint lastStableOffset:bigint logEndOffset:bigint"
    ),
    "metadata": (
        "file:string offset:bigint epoch:int timestamp:timestamp isControl:boolean type:string version:int "
        "data:string"
    ),
    "znodes": (
        "path:string data:binary czxid:bigint mzxid:bigint pzxid:bigint ctime:timestamp mtime:timestamp "
        "version:int cversion:int aversion:int ephemeralOwner:bigint dataLength:int numChildren:int "
        "acl:array<struct<perms:int,scheme:string,id:string>>"
    ),
}
"""Columns that queries may name, in their order, as they were when they were declared by hand."""


@pytest.mark.parametrize("contents", COLUMNS)
def test_columns_that_queries_may_name_stay_and_others_come_behind_them(contents: str) -> None:
    columns = [f"{field.name}:{field.dataType.simpleString()}" for field in SCHEMAS[contents]]
    known = COLUMNS[contents].split(" ")
    assert columns[: len(known)] == known
    assert {*COLUMNS} == {*SCHEMAS}


class Shown(Struct, frozen=True, kw_only=True):
    """A part of a line."""

    read_bytes: int
    write_timestamp: int | None


class Told(Struct, frozen=True, kw_only=True):
    """A line with a field of each kind."""

    topic_id: str | None
    is_open: bool | UnsetType = UNSET
    leader_epoch: int | None
    start_offset: int
    parts: list[Shown]
    owners: dict[str, tuple[str, ...] | None] | None


def test_fields_become_columns_of_their_kind() -> None:
    assert struct_of(Told).simpleString() == (
        "struct<topicId:string,isOpen:boolean,leaderEpoch:int,startOffset:bigint,"
        "parts:array<struct<read_bytes:bigint,write_timestamp:timestamp>>,owners:map<string,array<string>>>"
    )
    assert struct_of(Shown, as_json=True).simpleString() == "struct<read_bytes:bigint,write_timestamp:bigint>"


def test_a_field_that_no_column_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="kafka has no type as a column"):
        struct_of(ZkLine)


def test_times_and_strange_values_inside_of_lists_are_converted_too() -> None:
    parts = [{"read_bytes": 2**63, "write_timestamp": 1}, {"read_bytes": 5, "write_timestamp": 2**63}]
    row: Row = {"parts": parts, "owners": {"\udcff": ("\udcfe", "a")}, "leaderEpoch": 2**31, "startOffset": -(2**63)}
    (batch,) = arrow_batches(iter([row]), struct_of(Told))
    moment = datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    assert batch.to_pylist() == [
        {
            "topicId": None, "isOpen": None, "leaderEpoch": None, "startOffset": -(2**63),
            "parts": [
                {"read_bytes": None, "write_timestamp": moment}, {"read_bytes": 5, "write_timestamp": None},
            ],
            "owners": [("\\udcff", ["\\udcfe", "a"])],
        }
    ]  # fmt: skip


def test_a_torn_batch_that_claims_offsets_beyond_64_bits_is_a_finding_all_the_same() -> None:
    outline = BatchOutline(2**63 - 3, 2**63 + 6, 9, None, 1)
    found = Finding(FindingCode.TORN_TAIL, Severity.WARNING, 5, 2**63 - 3, batch=outline)
    (batch,) = arrow_batches(iter([contents_files._finding_row(found)]), SCHEMAS["findings"])
    (row,) = batch.to_pylist()
    assert row["batch"] == {
        "first_offset": 2**63 - 3, "last_offset": None, "records": 9, "first_timestamp": None,
        "last_timestamp": datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
    }  # fmt: skip
    assert (row["code"], row["position"], row["offset"]) == ("torn_tail", 5, 2**63 - 3)


def camel(line: Row) -> Row:
    return {re.sub("_([a-z])", lambda found: found[1].upper(), name): value for name, value in line.items()}


@pytest.mark.parametrize(
    ("case_id", "name", "other"),
    [
        ("4.1.1/groups", "groups", ()),
        ("4.4.0/groups", "groups", ()),
        ("4.4.0/groups", "offsets", ("source", "zxid", "chroot", "logEndOffset", "lag", "elsewhere")),
        ("4.1.1/txn", "transactions", ("kind", "partitions", "ageMs")),
    ],
)
def test_a_row_has_all_that_the_line_of_the_command_says(case_id: str, name: str, other: tuple[str, ...]) -> None:
    lines = [camel(line) for line in command(name, *brokers(case_id), "--json").objects]
    found = rows(brokers(case_id), name)
    missing = dict.fromkeys(field.name for field in SCHEMAS[name])
    assert found
    for row, line in zip(found, lines, strict=True):
        wanted = missing | {key: value for key, value in line.items() if key not in other}
        if name == "offsets":
            wanted["pending"] = wanted["pending"] or False
        assert {key: value for key, value in row.items() if key not in other} == {
            key: value for key, value in wanted.items() if key not in other
        }


def test_a_finding_of_many_directories_has_every_field() -> None:
    """What is added to a finding is added to the column of `verify_many`, too."""
    kind = struct_of(fleet.VerifiedLine, as_json=True)["findings"].dataType
    assert isinstance(kind, ArrayType)
    assert isinstance(kind.elementType, StructType)
    assert {*kind.elementType.names} == {*Finding.__struct_fields__}
    found = Finding(FindingCode.CRC_MISMATCH, Severity.ERROR, 2**63, 5, batch=BatchOutline(0, 2**64, 1, None, None))
    line = fleet.VerifiedLine(path="p", outcome="findings", findings=[shaped(found, FindingJson)])
    cells = ("crc_mismatch", "error", None, None, 5, None, None, (0, None, 1, None, None), "")
    assert fleet._cells(line) == ("p", "findings", None, None, [cells], None, None)
