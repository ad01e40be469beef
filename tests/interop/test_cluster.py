"""What kafkalog makes of a cluster's state against Kafka's own classes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kafkalog import Log, NewRecord
from kafkalog.cluster.assignors.assignors import ASSIGNORS, GroupMember, assign
from kafkalog.cluster.kraft.metadata_json import state_json
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.layout.consumer_protocol import COOPERATIVE_STICKY_USER_DATA, STICKY_USER_DATA
from kafkalog.cluster.records.framed_records import FramedRecord, encode_framed
from kafkalog.cluster.records.messages import Decoded, encode
from kafkalog.codec.messages.published import newest, record_types
from kafkalog.log import open_partition
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import in_json

Note = Callable[[str, int], None]
KRAFT = [case for case in broker_cases() if case.case["mode"] == "kraft"]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case.name == "metadata" else [pytest.mark.interop]) for case in KRAFT],
    ids=lambda case: case.id,
)
def test_the_metadata_image_is_kafkas(case: BrokerCase, kafka_of: Callable[[str], KafkaOracle], compared: Note) -> None:
    (broker,) = brokers(case.id)
    directory = broker / "__cluster_metadata-0"
    log = MetadataLog(open_partition(directory))
    for until in (None, *(end for end, _, _ in log.snapshots if end), log.state().next_offset // 2):
        if until is not None and until < log.partition.log_start_offset:
            continue
        wanted = kafka_of("4.4.0").image(directory, until)
        got = in_json(state_json(log.state(until)))
        got["controllers"] = list(got["controllers"])
        if wanted["epoch"] == 0:  # the harness takes epochs from the log, and no record of it was applied
            del wanted["epoch"]
        assert {name: got[name] for name in wanted} == wanted
        partitions = sum(len(topic["partitions"]) for topic in wanted["topics"].values())
        compared("metadata images of Kafka", 1)
        compared("partitions in metadata images of Kafka", partitions)


def test_controllers_and_cordoned_directories_are_those_of_kafkas_image(
    kafka_of: Callable[[str], KafkaOracle], tmp_path: Path
) -> None:
    """A controller is unregistered (4.4), and a directory is cordoned and is no longer (4.3)."""
    one, other = (base64.urlsafe_b64encode(bytes([each] * 16)).decode()[:22] for each in (1, 2))
    controller = {"incarnation_id": one, "zk_migration_ready": False, "end_points": [], "features": []}
    broker = {"broker_id": 7, "incarnation_id": one, "broker_epoch": 5, "end_points": [], "features": [],
              "rack": None, "fenced": False, "in_controlled_shutdown": False, "log_dirs": [one, other]}  # fmt: skip
    records: list[tuple[str, int, dict[str, Any]]] = [
        ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 33}),
        ("RegisterControllerRecord", 0, {"controller_id": 1, **controller}),
        ("RegisterControllerRecord", 0, {"controller_id": 2, **controller}),
        ("RegisterBrokerRecord", 4, {**broker, "cordoned_log_dirs": [other]}),
        ("UnregisterControllerRecord", 0, {"controller_id": 1}),
        ("BrokerRegistrationChangeRecord", 3, {"broker_id": 7, "broker_epoch": 5, "cordoned_log_dirs": [one, other]}),
        ("BrokerRegistrationChangeRecord", 3, {"broker_id": 7, "broker_epoch": 5}),
        ("BrokerRegistrationChangeRecord", 3, {"broker_id": 7, "broker_epoch": 5, "cordoned_log_dirs": []}),
    ]
    kinds = {name: kind for kind, name in record_types("__cluster_metadata").items()}
    directory = tmp_path / "__cluster_metadata-0"
    with Log.open(directory) as log:
        for name, version, fields in records:
            found = Decoded(newest(name), version, fields, 0)
            log.append([NewRecord(value=encode_framed(FramedRecord(kinds[name], version, None, found)))])
    seen = []
    for until in range(1, len(records) + 1):
        wanted = kafka_of("4.4.0").image(directory, until)
        got = in_json(state_json(MetadataLog(open_partition(directory)).state(until)))
        got["controllers"] = list(got["controllers"])
        assert (got["controllers"], got["brokers"]) == (wanted["controllers"], wanted["brokers"]), until
        seen.append((got["controllers"], [each["cordoned_directories"] for each in got["brokers"].values()]))
    assert seen[2][0] == ["1", "2"]
    assert seen[3:] == [
        (["1", "2"], [[other]]), (["2"], [[other]]), (["2"], [[one, other]]), (["2"], [[one, other]]), (["2"], [[]]),
    ]  # fmt: skip


def _case(random: Random, assignor: str) -> tuple[dict[str, int], list[list[GroupMember]]]:
    """Topics and up to three rounds of members; half of the sticky assignors' with equal subscriptions."""
    counts = {f"t{number}": random.randint(0, 9) for number in range(random.randint(1, 4))}
    same = tuple(sorted(random.sample(sorted(counts), random.randint(1, len(counts)))))
    pool = [f"{random.choice(['m', 'consumer-', 'é'])}{random.randint(0, 999)}" for _ in range(8)]
    pool = list(dict.fromkeys(pool))

    is_equal = "sticky" in assignor and random.random() < 0.5

    def member(name: str) -> GroupMember:
        topics = same if is_equal else tuple(random.sample(sorted(counts), random.randint(1, len(counts))))
        return GroupMember(
            member_id=name,
            topics=topics,
            instance_id=f"i{random.randint(0, 9)}{name}" if random.random() < 0.3 else None,
        )

    known = {name: member(name) for name in pool}
    rounds = [[known[name] for name in random.sample(pool, random.randint(1, len(pool)))] for _ in range(3)]
    return counts, rounds


def _differences(kafka: KafkaOracle, cases: int, seed: int) -> tuple[int, list[str]]:
    random, compared, wrong = Random(seed), 0, []
    while compared < cases:
        assignor = ASSIGNORS[compared % len(ASSIGNORS)]
        counts, rounds = _case(random, assignor)
        asked = [
            {
                "partitions": counts,
                "members": [
                    {"id": each.member_id, "topics": list(each.topics)}
                    | ({"instance": each.instance_id} if each.instance_id is not None else {})
                    for each in members
                ],
            }
            for members in rounds
        ]
        answers = kafka.assign(assignor, asked)
        before: dict[str, frozenset[tuple[str, int]]] = {}
        since: dict[str, int] = {}
        for generation, (members, answer) in enumerate(zip(rounds, answers, strict=True), start=1):
            # members remember; who left has forgotten, and all see the subscription's generation of the round before
            remembering = [
                replace(
                    each,
                    owned=tuple(sorted(before.get(each.member_id, ()))),
                    generation=_generation(assignor, each.member_id, since, generation - 1),
                    subscription_generation=generation - 1,
                )
                for each in sorted(members, key=lambda each: each.member_id.encode("utf-16-be"))
            ]
            wanted = {
                name: frozenset((topic, number) for topic, number in found["partitions"])
                for name, found in answer["members"].items()
            }
            got = assign(assignor, counts, remembering)
            if got != wanted:
                wrong.append(f"{assignor} {counts} {remembering}: {got} is not {wanted}")
            before, since = wanted, dict.fromkeys(wanted, generation)
            compared += 1
    return compared, wrong


def _generation(assignor: str, member: str, since: dict[str, int], subscription: int) -> int:
    """Eager sticky keeps its own generation, unknown to a new member; cooperative the subscription's."""
    return since.get(member, -1) if assignor == "sticky" else subscription


def test_assignors_are_kafkas_on_a_few_hundred_cases(kafka: KafkaOracle, compared: Note) -> None:
    count, wrong = _differences(kafka, 300, 1)
    assert wrong == []
    compared("generated assignments of Kafka's assignors", count)


@pytest.mark.interop
def test_assignors_are_kafkas_on_ten_thousand_cases(kafka: KafkaOracle, compared: Note) -> None:
    count, wrong = _differences(kafka, 10_200, 2)
    assert wrong == []
    compared("generated assignments of Kafka's assignors", count)


def _early_case(random: Random, assignor: str) -> tuple[dict[str, int], list[GroupMember], list[dict[str, object]]]:
    """Members that had disjoint parts of the topics in this or the round before, listed by topic."""
    counts = {f"t{number}": random.randint(1, 7) for number in range(random.randint(1, 3))}
    names = sorted({f"m{random.randint(0, 999)}" for _ in range(random.randint(1, 6))})  # the harness's own order
    places = [(topic, number) for topic, count in counts.items() for number in range(count)]
    holder = {place: random.choice([*names, None]) for place in places}
    found, asked = [], []
    for name in names:
        owned = [each for each, who in holder.items() if who == name]
        generation = random.choice([5, 5, 4]) if owned else -1
        found.append(GroupMember(member_id=name, topics=tuple(counts), owned=tuple(owned), generation=generation))
        topics = [
            {"topic": topic, "partitions": [number for where, number in owned if where == topic]}
            for topic in counts
            if any(where == topic for where, _ in owned)
        ]
        fields: dict[str, object] = {"id": name, "topics": list(counts)}
        if assignor == "cooperative-sticky":
            fields["owned"] = [list(each) for each in owned]
            data = encode(COOPERATIVE_STICKY_USER_DATA, 0, {"generation": generation})
            fields["user_data"] = base64.b64encode(data).decode()
        elif owned:
            data = encode(STICKY_USER_DATA, 1, {"previous_assignment": topics, "generation": generation})
            fields["user_data"] = base64.b64encode(data).decode()
        asked.append(fields)
    return counts, found, asked


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_early_sticky_assignors_are_those_of_2_8(
    assignor: str, kafka_of: Callable[[str], KafkaOracle], compared: Note
) -> None:
    kafka, random = kafka_of("2.8.2"), Random(assignor)
    for _ in range(200):
        counts, members, asked = _early_case(random, assignor)
        (answer,) = kafka.assign(assignor, [{"partitions": counts, "members": asked, "generation": 6}])
        wanted = {
            name: frozenset((topic, number) for topic, number in found["partitions"])
            for name, found in answer["members"].items()
        }
        assert assign(assignor, counts, members, early=True) == wanted, members
    compared("generated assignments of Kafka's assignors of 2.8.2", 200)
