"""The image of a KRaft cluster: from snapshots and log, from the log alone, by hand, and out of damaged files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cluster.kraft.metadata_history import PartitionChange, partition_changes
from kafkalog.cluster.kraft.metadata_image import MIGRATING, MetadataImage, PartitionImage
from kafkalog.cluster.kraft.metadata_json import state_json
from kafkalog.cluster.kraft.metadata_log import MetadataLog, MetadataState
from kafkalog.cluster.layout import cluster_metadata
from kafkalog.cluster.records.framed_records import FramedRecord, decode_metadata, encode_framed
from kafkalog.cluster.records.messages import Decoded
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.log import open_partition, open_segment
from testkit.kafka.kafka_jars import number
from testkit.recorded.broker_dirs import KILLED, brokers
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import in_json, kafkalog
from testkit.running.shares import EACH

Note = Callable[[str, int], None]
KRAFT = [case for case in broker_cases() if case.case["mode"] == "kraft"]


def image_json(image: MetadataImage, *, show_secrets: bool = False) -> dict[str, Any]:
    """What is printed of an image."""
    state = MetadataState(image=image, snapshot=None)
    return in_json(state_json(state, show_secrets=show_secrets))  # type: ignore[no-any-return]


def log_of(case: BrokerCase) -> MetadataLog:
    (broker,) = brokers(case.id)
    return MetadataLog(open_partition(broker / "__cluster_metadata-0"))


@pytest.mark.parametrize("case", KRAFT, ids=lambda case: case.id)
def test_snapshot_and_tail_give_the_image_of_the_whole_log(case: BrokerCase, compared: Note) -> None:
    log = log_of(case)
    state = log.state()
    assert state.findings == []
    if log.partition.log_start_offset > 0 or not log.partition.segments or log.partition.segments[0].base_offset > 0:
        return
    alone = log.state(use_snapshot=False)
    if alone.next_offset != state.next_offset:  # retention by the records' own dates has emptied the log
        assert alone.next_offset < state.next_offset
        return
    assert alone.findings == []
    assert image_json(alone.image, show_secrets=True) == image_json(state.image, show_secrets=True)
    compared("metadata images from the log alone and with snapshots", 1)
    for end, _, path in log.snapshots:
        here = log.state(end)
        assert here.snapshot == path
        if end == 0:  # from 4.4 on formatting writes the first levels of features into it, and before that none
            levels = set(here.image.features) - {"kraft.version"}
            assert ("metadata.version" in levels) is (number(case.version) >= (4, 4))
            assert levels <= set(state.image.features)
            continue
        assert image_json(here.image, show_secrets=True) == image_json(
            log.state(end, use_snapshot=False).image, show_secrets=True
        )
        compared("metadata images at a snapshot's offset", 1)


@pytest.mark.parametrize("content", ["[]", "null", "{", "7"])
def test_a_quorum_state_that_is_no_object_makes_a_finding(content: str, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/metadata")
    target = Path(shutil.copytree(broker / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0"))
    path = target / "quorum-state"
    path.write_text(content)
    findings: list[Finding] = []
    log = MetadataLog(open_partition(target))
    assert log.quorum_state(findings) is None
    assert [(found.code, found.file) for found in findings] == [(FindingCode.CHECKPOINT_INVALID, str(path))]
    path.unlink()
    assert log.quorum_state(findings) is None
    assert len(findings) == 1


def test_the_log_is_whole_in_most_cases() -> None:
    whole = [
        case for case in KRAFT if log_of(case).state(use_snapshot=False).next_offset == log_of(case).state().next_offset
    ]
    assert len(whole) >= 10


@pytest.mark.parametrize("case", [case for case in KRAFT if case.name not in KILLED], ids=lambda case: case.id)
def test_topics_have_the_ids_of_their_directories(case: BrokerCase, compared: Note) -> None:
    image = log_of(case).state().image
    (broker,) = brokers(case.id)
    count = 0
    for path in broker.glob("*/partition.metadata"):
        if "." in path.parent.name or path.parent.name.startswith("__cluster_metadata"):
            continue
        topic, _, number = path.parent.name.rpartition("-")
        identity = path.read_text().split("topic_id: ")[1].strip()
        assert image.topics[topic].id == identity
        assert int(number) in image.topics[topic].partitions
        count += 1
    assert count
    compared("topic ids in partition.metadata", count)


UUID, OTHER = "AQIDBAUGBwgJCgsMDQ4PEA", "AAAAAAAAAAAAAAAAAAAAAg"


def record(kind: int, version: int = 0, **fields: Any) -> FramedRecord:
    """Through the bytes, so that defaults are those of a reader."""
    layout = cluster_metadata.VALUES[kind][0]
    raw = encode_framed(FramedRecord(kind, version, None, Decoded(layout, version, fields, 0)))
    found = decode_metadata(raw)
    assert found.findings == ()
    return found


def image_of(*records: FramedRecord) -> MetadataImage:
    image = MetadataImage()
    for each in records:
        image.apply(each)
    return image


TOPIC = record(2, name="t", topic_id=UUID)
PARTITION = record(
    3, 2, partition_id=0, topic_id=UUID, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1, leader_epoch=4, partition_epoch=7,
    directories=[OTHER] * 3, eligible_leader_replicas=[2],
)  # fmt: skip


def change(version: int = 2, **fields: Any) -> FramedRecord:
    return record(5, version, partition_id=0, topic_id=UUID, **fields)


def partition_behind(*records: FramedRecord) -> Any:
    image = image_of(TOPIC, PARTITION, *records)
    assert image.problems == []
    return image.topics["t"].partitions[0]


def test_what_a_partition_change_changes() -> None:
    untouched = partition_behind(change())
    assert (untouched.leader, untouched.leader_epoch, untouched.partition_epoch) == (1, 4, 8)
    assert (untouched.isr, untouched.elr) == ((1, 2, 3), (2,))
    same_leader = partition_behind(change(leader=1))
    assert (same_leader.leader, same_leader.leader_epoch) == (1, 5)
    none = partition_behind(change(leader=-1, isr=[2], leader_recovery_state=1, eligible_leader_replicas=[]))
    assert (none.leader, none.leader_epoch, none.isr, none.recovering, none.elr) == (-1, 5, (2,), True, ())
    assert partition_behind(record(28, topic_name="")).elr == ()
    assert partition_behind(record(28, topic_name="other")).elr == (2,)


def test_directories_follow_the_replicas_only_while_they_are_unknown() -> None:
    old = record(3, partition_id=0, topic_id=UUID, replicas=[1, 2], isr=[1], leader=1)
    image = image_of(TOPIC, old, change(0, replicas=[1, 2, 3]))
    assert image.topics["t"].partitions[0].directories == (MIGRATING,) * 3
    assert image_of(TOPIC, PARTITION, change(0, replicas=[1])).problems == ["t-0 has 1 replicas and 3 directories"]


def test_metadata_transactions_take_effect_at_their_end_or_never() -> None:
    begin, end, abort = record(23, name="x"), record(24), record(25)
    assert list(image_of(begin, TOPIC).topics) == []
    assert image_of(begin, TOPIC).in_transaction
    assert list(image_of(begin, TOPIC, end).topics) == ["t"]
    assert list(image_of(begin, TOPIC, abort).topics) == []
    assert image_of(begin, begin).problems


def test_removing_a_topic_takes_its_partitions_and_configs() -> None:
    config = record(4, resource_type=2, resource_name="t", name="retention.ms", value="5")
    image = image_of(TOPIC, PARTITION, config, record(9, topic_id=UUID))
    assert (image.topics, image.configs, image.problems) == ({}, {}, [])
    assert image_of(record(9, topic_id=UUID)).problems
    assert image_of(change()).problems
    assert image_of(TOPIC, change()).problems
    unset = record(4, resource_type=2, resource_name="t", name="retention.ms", value=None)
    assert image_of(TOPIC, config, unset).configs == {}


def test_brokers_come_go_and_are_fenced() -> None:
    register = record(0, 3, broker_id=1, broker_epoch=9, incarnation_id=UUID, fenced=True, log_dirs=[OTHER, UUID])
    unfenced = image_of(register, record(17, 1, broker_id=1, broker_epoch=9, fenced=-1, in_controlled_shutdown=1))
    assert (unfenced.brokers[1].fenced, unfenced.brokers[1].in_controlled_shutdown) == (False, True)
    assert unfenced.brokers[1].directories == (OTHER, UUID)
    assert image_of(register, record(8, id=1, epoch=9), record(7, id=1, epoch=9)).brokers[1].fenced
    assert image_of(register, record(1, broker_id=1, broker_epoch=9)).brokers == {}
    assert image_of(register, record(1, broker_id=1, broker_epoch=8)).problems
    controller = record(27, controller_id=4, incarnation_id=UUID)
    assert list(image_of(controller).controllers) == [4]
    assert image_of(controller, record(29, controller_id=4)).controllers == {}


def test_quotas_credentials_tokens_and_access_control() -> None:
    entity = [{"entity_type": "user", "entity_name": None}]
    quota = record(14, entity=entity, key="producer_byte_rate", value=5.0, remove=False)
    assert image_json(image_of(quota))["client_quotas"] == {"{user=null}": {"producer_byte_rate": 5.0}}
    gone = record(14, entity=entity, key="producer_byte_rate", value=0.0, remove=True)
    assert image_of(quota, gone).client_quotas == {}
    scram = record(11, name="u", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=8192)
    shown = image_json(image_of(scram))
    assert shown["scram_users"] == {"SCRAM-SHA-512": ["u"]}
    assert "[hidden]" in str(shown["scram_credentials"])
    assert image_of(scram, record(22, name="u", mechanism=2)).scram == {}
    token = record(10, owner="User:a", requester="User:b", renewers=[], token_id="secret-id")
    assert "secret-id" not in str(image_json(image_of(token)))
    assert image_of(token, record(26, token_id="secret-id")).delegation_tokens == {}
    acl = record(18, id=UUID, resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*",
                 operation=3, permission_type=3)  # fmt: skip
    assert image_of(acl).acls[UUID]["principal"] == "User:a"
    assert image_of(acl, record(19, id=UUID)).acls == {}
    assert image_of(record(12, name="f", feature_level=3)).features == {"f": 3}
    assert image_of(record(12, name="f", feature_level=3), record(12, name="f", feature_level=0)).features == {}


@EACH
def test_history_leads_from_the_first_state_to_the_last(each: int) -> None:
    for case in KRAFT[::each]:
        log, findings = log_of(case), list[Finding]()
        final = log.state().image
        standing: dict[tuple[str, int], Any] = {}
        for change in partition_changes(log, findings):
            key = change.topic_id, change.partition
            assert change.before == standing.get(key, change.before)
            assert change.cause
            standing[key] = change.after
        assert findings == []
        whole = {
            (topic.id, number): found for topic in final.topics.values() for number, found in topic.partitions.items()
        }
        assert {key: found for key, found in standing.items() if found is not None}.items() <= whole.items()


def test_history_of_one_partition_names_causes() -> None:
    (broker,) = brokers("4.1.1/metadata")
    lines = kafkalog("metadata", "--history", "--json", "--topic", "ledger-21", "--partition", 0, broker).objects
    assert lines[0]["cause"] == "created"
    assert any(line["cause"].startswith("leader lost") for line in lines)
    assert {line["topic"] for line in lines} == {"ledger-21"}


def test_controller_terms_are_those_of_the_leader_changes() -> None:
    for case in KRAFT:
        log, findings = log_of(case), list[Finding]()
        terms = log.terms(findings)
        assert terms
        assert [term.epoch for term in terms] == sorted({term.epoch for term in terms})
        quorum = log.quorum_state(findings)
        assert quorum is not None
        assert quorum["leaderEpoch"] >= terms[-1].epoch
        assert findings == []


AROUND = 70
"""Bytes on both sides of a batch's end that are cut one by one: more than a header has."""


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    (broker,) = brokers("4.1.1/metadata")
    return Path(shutil.copytree(broker / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0"))


@pytest.mark.parametrize(
    "step", [87, pytest.param(29, marks=pytest.mark.recorded), pytest.param(1, marks=pytest.mark.sweep)]
)
def test_every_truncation_of_a_metadata_log_and_snapshot_gives_a_report(damaged: Path, step: int) -> None:
    log = damaged / f"{269:020d}.log"
    data = log.read_bytes()
    for path in damaged.glob("*.checkpoint"):
        if not path.name.startswith(f"{261:020d}"):
            path.unlink()
    whole = MetadataLog(open_partition(damaged)).state()
    ends = {0, *(batch.position + batch.size for batch in open_segment(log).batches())}
    quiet = set()
    around = (length for end in ends for length in range(max(end - AROUND, 0), min(end + AROUND, len(data)) + 1))
    for length in sorted({*range(0, len(data), step), *around}):
        log.write_bytes(data[:length])
        state = MetadataLog(open_partition(damaged)).state()
        assert state.next_offset <= whole.next_offset
        assert state_json(state)
        if not state.findings:
            quiet.add(length)
    assert quiet == ends
    assert len(ends) == 3
    assert state.next_offset == whole.next_offset
    log.write_bytes(data)
    (snapshot,) = damaged.glob("*.checkpoint")
    content = snapshot.read_bytes()
    for length in range(0, len(content), 5 * step):
        snapshot.write_bytes(content[:length])
        state = MetadataLog(open_partition(damaged)).state()
        assert FindingCode.METADATA_GAP in {found.code for found in state.findings}
        assert state.snapshot is None


def test_the_command_on_a_cut_log(damaged: Path) -> None:
    log = damaged / f"{269:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    finished = kafkalog("metadata", "--json", damaged)
    assert finished.objects
    assert "Traceback" not in finished.err


def test_tables_for_people_hide_credentials(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/metadata")
    text = kafkalog("metadata", broker)
    assert (text.code, text.err) == (0, "")
    assert "SCRAM-SHA-256  u0" in text.out
    assert "[hidden]" in text.out
    assert "[hidden]" not in kafkalog("metadata", "--show-secrets", broker).out
    assert kafkalog("metadata", *brokers("2.8.2/groups")).code == 64


def test_a_second_topic_of_one_name_hides_no_partition() -> None:
    """A controller ends there ("Found duplicate TopicRecord", seen with 4.3.0); a broker alone keeps both ids."""
    of_other = record(
        3, 2, partition_id=0, topic_id=OTHER, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0,
        directories=[OTHER],
    )  # fmt: skip
    image = image_of(TOPIC, PARTITION, record(2, name="t", topic_id=OTHER), of_other)
    found = [(each.name, each.id, len(each.partitions)) for each in image.topics.values()]
    assert found == [("t", UUID, 1), ("t", OTHER, 1)]
    (problem,) = image.problems
    assert UUID in problem
    assert OTHER in problem


def test_a_level_of_kraft_version_in_the_log_is_ignored_as_by_controllers() -> None:
    image = image_of(
        record(12, name="kraft.version", feature_level=7), record(12, name="group.version", feature_level=1)
    )
    assert image.features == {"group.version": 1}


@pytest.mark.parametrize(("replicas", "adding", "cause"), [
    ((3, 2, 1), (), "replicas change"),
    ((1, 2, 3, 4), (4,), "reassignment begins"),
    ((1, 2, 3), (), "partition epoch only"),
])  # fmt: skip
def test_a_change_of_the_replicas_alone_is_named(
    replicas: tuple[int, ...], adding: tuple[int, ...], cause: str
) -> None:
    before = PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0, ())
    after = PartitionImage(replicas, (1, 2, 3), 1, 0, 1, (), adding)
    change = PartitionChange(offset=1, timestamp=1, topic="t", topic_id=UUID, partition=0, before=before, after=after)
    assert change.cause == cause
