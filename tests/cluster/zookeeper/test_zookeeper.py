"""ZooKeeper's tree from its files: what a live server answered, its own digests, and every kind of damage."""

from __future__ import annotations

import base64
import gzip
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cluster.layout import zookeeper as layout
from kafkalog.cluster.records.messages import encode
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.brokers import broker_registration
from kafkalog.cluster.zookeeper.kafka_nodes import (
    controller_id,
    json_object,
    partition_state,
    replicas_of,
    shown_data,
)
from kafkalog.cluster.zookeeper.log_file import LogFileReader
from kafkalog.cluster.zookeeper.moments import zxid_at
from kafkalog.cluster.zookeeper.snapshot import read_snapshot
from kafkalog.cluster.zookeeper.transaction import TransactionType, parse_transaction
from kafkalog.cluster.zookeeper.tree import CONTAINER_OWNER, Tree
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.compression import snappy
from testkit.recorded.broker_dirs import KILLED, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]
RECORDED = [case for case in broker_cases() if case.has("zk_tree") and case.name not in KILLED]
WITH_ZXID = [case for case in RECORDED if case.has("zk_tree.zxid")]


def expected_zxid(case: BrokerCase, stem: str = "zk_tree") -> int:
    if (case.path / "expected" / f"{stem}.zxid").is_file():
        return int(case.expected_text(f"{stem}.zxid"))
    return max(max(int(line[name]) for name in ("czxid", "mzxid", "pzxid")) for line in case.expected(stem))


def zookeeper_of(case_id: str) -> Path:
    return unpacked(case_id) / "zookeeper"


def same_tree(case: BrokerCase, stem: str) -> int:
    zxid = expected_zxid(case, stem)
    finished = kafkalog("zk", "--json", "--zxid", hex(zxid), zookeeper_of(case.id))
    assert (finished.code, finished.err) == (0, "")
    got = {line["path"]: line for line in finished.objects}
    wanted = case.expected(stem)
    assert {line["path"] for line in wanted} == {*got}
    for line in wanted:
        assert line.items() <= got[line["path"]].items()
    return len(wanted)


def test_the_recorded_trees_are_all_there() -> None:
    assert len(WITH_ZXID) == 33
    assert len(RECORDED) == 39


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.id)
def test_the_tree_is_the_live_servers(case: BrokerCase, compared: Note) -> None:
    count = same_tree(case, "zk_tree")
    if case.has("zk_tree_mid"):
        count += same_tree(case, "zk_tree_mid")
    compared("znodes with their whole stat", count)


@pytest.mark.parametrize("case", [case for case in broker_cases() if case.has("zk_tree")], ids=lambda case: case.id)
def test_every_transaction_leads_to_the_tree_that_its_digest_says(case: BrokerCase, compared: Note) -> None:
    directory = open_zookeeper(zookeeper_of(case.id))
    found = tree_at(directory)
    assert found.findings == []
    assert found.transactions
    if case.version == "3.9.1-zk":  # ZooKeeper 3.6 and later
        assert found.digests_checked > 1
        compared("digests of ZooKeeper", found.digests_checked)


@pytest.mark.parametrize("case", [case for case in RECORDED if case.name == "zkhist"], ids=lambda case: case.id)
def test_every_snapshot_leads_to_the_same_tree(case: BrokerCase, compared: Note) -> None:
    """From whichever snapshot the logs are replayed, and from none where the first log begins at the beginning."""
    directory = open_zookeeper(zookeeper_of(case.id))
    wanted = tree_at(directory)
    for number in range(len(directory.snapshots) + 1):
        if number == 0 and directory.snapshots[0][0] == 0:
            continue  # 3.5 and later begin with a snapshot of the empty tree, which has more system nodes
        chosen = type(directory)(directory.paths, directory.logs, directory.snapshots[:number])
        found = tree_at(chosen)
        assert found.findings == []
        assert found.zxid == wanted.zxid
        assert found.tree.nodes == wanted.tree.nodes
        assert found.tree.digest == wanted.tree.digest
        compared("trees rebuilt from an older snapshot", 1)


def test_transactions_that_zookeeper_itself_wrote() -> None:
    created = parse_transaction(bytes.fromhex(
        "010000748b0c0000 00000000 0000000000000001 000001a1faea8a40 fffffff6 00002710 00000002 0000000051c6d660"
    ))  # fmt: skip
    assert (created.type, created.zxid, created.digest) == (TransactionType.CREATE_SESSION, 1, 0x51C6D660)
    assert zlib.adler32(bytes.fromhex(
        "010000748b0c0000 00000000 0000000000000001 000001a1faea8a40 fffffff6 00002710 00000002 0000000051c6d660"
    )) == 0xCDF10AD7  # fmt: skip


HEADER = {"client_id": 7, "cxid": 1, "zxid": 5, "time": 1000}
ACL = [{"perms": 31, "scheme": "world", "id": "anyone"}]


def transaction(kind: int, body: bytes, digest: bytes = b"", **header: int) -> bytes:
    return encode(layout.TXN_HEADER, 0, {**HEADER, "type": kind, **header}) + body + digest


def body(kind: int, **fields: Any) -> bytes:
    return encode(layout.BODIES[kind], 0, fields)


DIGEST = encode(layout.DIGEST, 0, {"version": 2, "tree_digest": 9})


@pytest.mark.parametrize("digest", [b"", DIGEST])
def test_both_forms_of_create_with_and_without_digest(digest: bytes) -> None:
    fields: dict[str, Any] = {"path": "/a", "data": None, "acl": ACL, "ephemeral": False}
    new = parse_transaction(transaction(1, body(1, **fields, parent_c_version=4), digest))
    old = parse_transaction(transaction(1, encode(layout.CREATE_V0, 0, fields), digest))
    assert new.operations[0].fields["parent_c_version"] == 4
    assert old.operations[0].fields["parent_c_version"] == -1
    assert new.digest == old.digest == (9 if digest else None)
    for paths in ([], ["/a", "/b"]):
        closed = parse_transaction(transaction(-11, body(-11, paths_to_delete=paths), digest))
        assert closed.operations[0].fields["paths_to_delete"] == paths
    assert parse_transaction(transaction(-11, b"", digest)).operations[0].fields["paths_to_delete"] == []


def applied(*payloads: bytes) -> Tree:
    tree = Tree.empty()
    for payload in payloads:
        tree.apply(parse_transaction(payload))
    return tree


def create(path: str, zxid: int, kind: int = 1, **more: Any) -> bytes:
    fields = {"path": path, "data": b"x", "acl": ACL, "ephemeral": False, "parent_c_version": -1, **more}
    return transaction(kind, body(kind, **fields), zxid=zxid)


def test_container_and_ttl_nodes_and_access_lists() -> None:
    tree = applied(
        create("/c", 1, 19),
        create("/t", 2, 21, ttl=60000),
        create("/e", 3, ephemeral=True),
        transaction(7, body(7, path="/c", acl=[{"perms": 1, "scheme": "sasl", "id": "kafka"}], version=3), zxid=4),
    )
    assert tree.nodes["/c"].ephemeral_owner == CONTAINER_OWNER
    assert tree.nodes["/t"].ephemeral_owner & (1 << 64) - 1 == 0xFF0000000000EA60
    assert (tree.nodes["/c"].acl, tree.nodes["/c"].aversion) == (((1, "sasl", "kafka"),), 3)
    closed = transaction(-11, b"", zxid=5)
    tree.apply(parse_transaction(closed))
    assert sorted(tree.nodes) == ["/", "/c", "/t", "/zookeeper", "/zookeeper/quota"]
    tree.apply(parse_transaction(transaction(20, body(20, path="/c"), zxid=6)))
    assert (tree.nodes["/"].pzxid, tree.nodes["/"].cversion, tree.nodes["/"].client_cversion) == (6, 3, 4)


def test_a_multi_with_an_error_changes_nothing() -> None:
    parts = [
        {"type": 13, "data": body(13, path="/", version=1)},
        {"type": 1, "data": body(1, path="/a", data=b"", acl=ACL, ephemeral=False, parent_c_version=1)},
    ]
    good = transaction(14, body(14, txns=parts))
    assert "/a" in applied(good).nodes
    bad = transaction(14, body(14, txns=[*parts, {"type": -1, "data": body(-1, err=-110)}]))
    assert parse_transaction(bad).failed
    assert "/a" not in applied(bad).nodes


def test_names_beyond_the_first_plane_are_written_as_two_surrogates() -> None:
    fields = {"path": "/a", "data": b"", "acl": [{"perms": 1, "scheme": "sasl", "id": "k\U0001f600"}],
              "ephemeral": False, "parent_c_version": 1}  # fmt: skip
    encoded = body(1, **fields)
    assert b"\xed\xa0\xbd\xed\xb8\x80" in encoded
    assert parse_transaction(transaction(1, encoded)).operations[0].fields["acl"] == fields["acl"]


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy of the smallest history with several files, for damaging."""
    return Path(shutil.copytree(zookeeper_of("3.9.1-zk/zkhist"), tmp_path / "zookeeper")) / "version-2"


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("log.*"), key=lambda path: int(path.suffix[1:], 16))


def codes(directory: Path) -> list[FindingCode]:
    return list(dict.fromkeys(found.code for found in tree_at(open_zookeeper(directory)).findings))


def without_snapshots_but_first(directory: Path) -> None:
    for path in directory.glob("snapshot.*"):
        if path.name != "snapshot.0":
            path.unlink()


@pytest.mark.sweep
def test_every_truncation_of_a_log_gives_a_report(tmp_path: Path) -> None:
    source = logs(zookeeper_of("3.9.1-zk/zkhist") / "version-2")[0]
    reader = LogFileReader(str(source), 1)
    whole = list(reader)
    assert reader.findings == []
    data = source.read_bytes()[: reader.valid_bytes]
    ends = [16]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 13 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big"))
    assert len(ends) == len(whole) + 1
    cut = tmp_path / "log.1"
    for length in range(len(data) + 1):
        cut.write_bytes(data[:length])
        shorter = LogFileReader(str(cut), 1)
        assert list(shorter) == whole[: sum(end <= length for end in ends[1:])]
        assert [each.code for each in shorter.findings] == ([] if length in ends else [FindingCode.ZK_LOG_TORN])


def test_the_command_reports_a_truncated_log(damaged: Path) -> None:
    last = logs(damaged)[-1]
    reader = LogFileReader(str(last))
    assert len(list(reader)) > 2
    last.write_bytes(last.read_bytes()[: reader.valid_bytes - 1])
    finished = kafkalog("zk", "--json", damaged.parent)
    assert finished.code == 1
    assert "zk_log_torn" in finished.err
    assert finished.objects


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("magic", FindingCode.ZK_LOG_CORRUPT),
        ("payload", FindingCode.ZK_CHECKSUM_MISMATCH),
        ("length", FindingCode.ZK_LOG_CORRUPT),
        ("closing", FindingCode.ZK_LOG_TORN),
        ("behind", FindingCode.ZK_LOG_CORRUPT),
        ("empty", FindingCode.ZK_LOG_TORN),
    ],
)
def test_damage_in_a_log_is_a_finding_and_what_is_behind_it_a_gap(damaged: Path, place: str, code: FindingCode) -> None:
    without_snapshots_but_first(damaged)
    second = logs(damaged)[1]
    reader = LogFileReader(str(second))
    first = next(iter(reader))
    assert first is not None
    length = int.from_bytes(second.read_bytes()[24:28], "big")
    position = {"magic": 0, "payload": 40, "length": 24, "closing": 28 + length}.get(place)
    if place == "behind":
        data = second.read_bytes()
        list(reader)
        second.write_bytes(data[:-1] + b"x")
    elif position is None:
        second.write_bytes(b"")
    else:
        _flip(second, position)
    expected = [code] if place == "behind" else [code, FindingCode.ZK_GAP]
    found = codes(damaged.parent)
    assert [each for each in found if each is not FindingCode.ZK_DIGEST_MISMATCH] == expected


def test_a_lost_log_is_a_gap_and_a_wrong_tree(damaged: Path) -> None:
    without_snapshots_but_first(damaged)
    logs(damaged)[1].unlink()
    assert codes(damaged.parent) == [FindingCode.ZK_GAP, FindingCode.ZK_DIGEST_MISMATCH]


def test_a_broken_snapshot_gives_way_to_an_older_one(damaged: Path) -> None:
    wanted = tree_at(open_zookeeper(damaged.parent))
    newest = Path(wanted.snapshot or "")
    _flip(newest, 200)
    found = tree_at(open_zookeeper(damaged.parent))
    assert found.snapshot != wanted.snapshot
    assert found.tree.nodes == wanted.tree.nodes
    assert [each.code for each in found.findings] in (
        [FindingCode.ZK_CHECKSUM_MISMATCH], [FindingCode.ZK_SNAPSHOT_INVALID])  # fmt: skip
    assert all(each.severity is Severity.ERROR for each in found.findings)


def test_every_truncation_of_a_snapshot_is_refused(tmp_path: Path) -> None:
    source = min(zookeeper_of("3.9.1-zk/zkhist").glob("version-2/snapshot.*"), key=lambda path: path.stat().st_size)
    data = source.read_bytes()
    cut = tmp_path / source.name
    sealed = len(data) - 33  # ZooKeeper 3.5 and older end here
    for length in [*range(0, len(data), 7), sealed - 1, len(data) - 1]:
        cut.write_bytes(data[:length])
        found = tree_at(open_zookeeper(tmp_path))
        assert [each.code for each in found.findings] == [FindingCode.ZK_SNAPSHOT_INVALID], length
    cut.write_bytes(data[:sealed])
    assert tree_at(open_zookeeper(tmp_path)).findings == []


def test_compressed_snapshots(tmp_path: Path) -> None:
    source = next(zookeeper_of("3.9.1-zk/zkhist").glob("version-2/snapshot.[1-9]*"))
    wanted = read_snapshot(str(source))
    for suffix, data in (
        (".gz", gzip.compress(source.read_bytes())),
        (".snappy", snappy.compress(source.read_bytes())),
    ):
        path = tmp_path / (source.name + suffix)
        path.write_bytes(data)
        assert read_snapshot(str(path)).tree.nodes == wanted.tree.nodes


def test_not_a_zookeeper_directory(tmp_path: Path) -> None:
    assert kafkalog("zk", tmp_path).code == 64
    assert kafkalog("zk", tmp_path / "nowhere").code == 64
    assert kafkalog("zk", "--zxid", "x", tmp_path).code == 64


# --- Kafka's nodes --------------------------------------------------------------------------------------------------


def test_secrets_are_hidden_from_people_and_on_request_from_programs() -> None:
    root = zookeeper_of("2.8.2/zkhist")
    plain = kafkalog("zk", "--json", "--below", "/config/users", root)
    secret = b"stored_key="
    assert any(secret in base64.b64decode(line["data"] or "") for line in plain.objects)
    hidden = kafkalog("zk", "--json", "--hide-secrets", "--below", "/config/users", root)
    assert [line["data"] for line in hidden.objects if line["path"].endswith("alice")] == ["[hidden]"]
    assert secret.decode() not in kafkalog("zk", root).out
    assert secret.decode() in kafkalog("zk", "--show-secrets", root).out


def test_what_is_hidden() -> None:
    assert shown_data("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5"}}') == (
        b'{"version":1,"config":{"retention.ms":"5"}}'
    )
    hidden = shown_data("/config/brokers/1", b'{"config":{"ssl.keystore.password":"pw","a":"b"}}')
    assert hidden == b'{"config":{"ssl.keystore.password":"[hidden]","a":"b"}}'
    assert shown_data("/config/users/u", b"not json") == b"[hidden]"
    assert shown_data("/config/users/u", b'{"config":["SCRAM-SHA-256=x"]}') == b"[hidden]"
    assert shown_data("/delegation_token/tokens/abc", b"{}") == b"[hidden]"
    assert shown_data("/brokers/ids/1", b"{}") == b"{}"


def test_data_that_is_not_what_it_should_be() -> None:
    assert controller_id(b"7") == 7
    assert controller_id(b'{"brokerid":3}') == 3
    assert controller_id(b"") is None
    assert controller_id(b'{"brokerid":true}') is None
    assert partition_state(b'{"leader":true,"leader_epoch":1,"isr":[1],"controller_epoch":1}') is None
    assert replicas_of(b'{"partitions":{"0":[1,true],"1":[1,2]}}') == {1: (1, 2)}
    registration = broker_registration("/brokers/ids/1", b'{"version":1,"port":9092}')
    assert registration is not None
    assert (registration.host, registration.endpoints) == (None, ())  # there is no host called None
    assert json_object(b"[" * 100000) is None
    assert json_object(b'{"a":[]}') == {"a": []}


def _without_a_log(damaged: Path) -> tuple[Path, int, int]:
    """ZooKeeper's directory without a log in its middle, and the transactions before and after the gap."""
    without_snapshots_but_first(damaged)
    lost = logs(damaged)[1]
    before = [each.zxid for each in LogFileReader(str(logs(damaged)[0]))][-1]
    after = next(iter(LogFileReader(str(logs(damaged)[2])))).zxid
    lost.unlink()
    return damaged.parent, before, after


@pytest.mark.parametrize(
    "command",
    [
        ("zk", "--json", "--zxid"),
        ("offsets", "--json", "--zxid"),
        ("groups", "--json", "--zxid"),
        ("metadata", "--effective", "--json", "--as-of"),
        ("elections", "--json", "--without", "3", "--as-of"),
    ],
    ids=lambda command: command[0],
)
def test_a_moment_in_a_gap_is_a_finding_and_one_beyond_the_end_refused(damaged: Path, command: tuple[str, ...]) -> None:
    directory, before, after = _without_a_log(damaged)
    name, *options = command
    last = kafkalog(name, directory, *options, hex(before))
    inside = kafkalog(name, directory, *options, hex(before + 1))
    assert (inside.code, inside.out) == (1, last.out)
    told = f"zk_gap ({logs(damaged)[1]}): 0x{before + 1:x} is not there: 0x{before:x}, whose state is taken"
    assert told in inside.err
    assert "is not there" not in last.err
    assert "is not there" in kafkalog(name, directory, *options, hex(after - 1)).err
    assert "is not there" not in kafkalog(name, directory, *options, hex(after)).err
    beyond = kafkalog(name, directory, *options, "0x7fffffffffffff")
    said = "0x7fffffffffffff is beyond ZooKeeper's last transaction, which is 0x"
    assert (beyond.code, said in beyond.err) == (64, True)


def test_a_time_in_a_gap_is_in_the_gap(damaged: Path) -> None:
    directory, before, after = _without_a_log(damaged)
    opened = open_zookeeper(directory)
    time = next(each.time for each in LogFileReader(str(logs(damaged)[1])) if each.zxid == after) - 1
    found = tree_at(opened, zxid_at(opened, time))
    assert (found.zxid, [each.code for each in found.findings]) == (before, [FindingCode.ZK_GAP])


def test_a_gap_may_end_with_a_snapshot(damaged: Path) -> None:
    for each in logs(damaged)[1:]:
        each.unlink()
    opened = open_zookeeper(damaged.parent)
    before = [each.zxid for each in LogFileReader(str(logs(damaged)[0]))][-1]
    assert opened.snapshots[-1][0] > before + 1
    found = tree_at(opened, before + 1)
    assert (found.zxid, [each.code for each in found.findings]) == (before, [FindingCode.ZK_GAP])
    assert tree_at(opened, before).findings == []
