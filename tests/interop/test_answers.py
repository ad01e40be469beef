"""A live broker and `serve` over a copy of its directory answer the same, field by field, or the page says where not.

    python tests/interop/test_answers.py [COUNT]

prints what differs, most frequent first, and the table of docs/serve.md.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from testkit.kafka.answer_comparing import Asking, Difference, Names, requests
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.recorded.explained_answers import explained, table
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import serving

VERSION = "4.1.0"
REQUESTS = 12_000
T0 = 1_700_000_000_000


def fill(bootstrap: str) -> None:
    """Records, transactions of all fates, a committed group, an empty topic."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    new = confluent_kafka.admin.NewTopic
    for each in admin.create_topics([new("plain", 3, 1), new("txn", 2, 1), new("none", 1, 1)]).values():
        each.result(30)
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(60):
        plain.produce("plain", f"v{number}", f"k{number}", number % 2, timestamp=T0 + number)
        if number % 5 == 4:
            plain.flush()
    plain.flush()
    for identity, fate in (("commits", "commit"), ("aborts", "abort"), ("stays", "open")):
        one = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": identity,
                                        "transaction.timeout.ms": 600_000})  # fmt: skip
        one.init_transactions(30)
        one.begin_transaction()
        for number in range(4):
            one.produce("txn", f"{fate} {number}", partition=0, timestamp=T0 + number)
        one.flush()
        if fate != "open":
            getattr(one, f"{fate}_transaction")(30)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("plain", 0, 7)], asynchronous=False)
    consumer.close()


@contextmanager
def both(directory: Path) -> Iterator[tuple[tuple[str, int], tuple[str, int], Names]]:
    """Addresses of a server of ours and of a broker, with the same in their directories."""
    with RealBroker(VERSION, directory / "b") as broker:
        broker.start()
        fill(broker.bootstrap)
        time.sleep(1)
        shutil.copytree(broker.log_dir, directory / "copy")
        host, _, port = broker.bootstrap.rpartition(":")
        with serving(directory / "copy") as server:
            ids = tuple(topic.id for name, topic in server.topics.items() if not name.startswith("__"))
            names = Names(
                ("plain", "txn", "none", "missing", "not/legal", "plain"), (*ids, "A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ"),
                ("readers", "nobody", "readers", ""),
            )  # fmt: skip
            yield server.address, (host, int(port)), names


def compared_with(directory: Path, count: int, seed: int = 1) -> tuple[Counter[str], dict[str, Difference], int]:
    """What differs: how often, by what and where, an example of each, and how many fields' answers there were."""
    found: Counter[str] = Counter()
    examples: dict[str, Difference] = {}
    asked = 0
    with both(directory) as (ours, theirs, names):
        with RawClient(theirs) as client, RawClient(ours) as own:
            offered = [
                {each["api_key"]: (each["min_version"], each["max_version"]) for each in one.ask(
                    "ApiVersions", 0)["api_keys"]}
                for one in (client, own)
            ]  # fmt: skip
        asking = Asking(ours, theirs)
        for name, version, body in requests(count, versions_of(*offered), names, seed):
            asked += 1
            for each in asking(name, version, body):
                key = f"{name} {each.path}"
                found[key] += 1
                examples.setdefault(f"{key} {each.ours} {each.theirs}", each)
        asking.close()
    return found, examples, asked


def versions_of(theirs: dict[int, tuple[int, int]], ours: dict[int, tuple[int, int]]) -> dict[str, range]:
    """By name, the versions that both understand."""
    from kafkalog.codec.messages.published import apis

    names = apis()
    return {
        names[key]: range(max(low, ours[key][0]), min(high, ours[key][1]) + 1)
        for key, (low, high) in theirs.items() if key in ours and key in names
    }  # fmt: skip


@pytest.mark.interop
def test_every_difference_to_a_live_broker_is_explained(
    kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    kafka_of(VERSION)
    _, examples, asked = compared_with(tmp_path, int(os.environ.get("KAFKALOG_REQUESTS", REQUESTS)))
    assert [str(each) for each in examples.values() if explained(each) is None] == []
    compared("answers of serve and of a live broker", asked)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        frequent, shown, number_asked = compared_with(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS)
    print(f"{number_asked} requests to both")
    for what, often in frequent.most_common():
        print(often, what)
    for one_of in shown.values():
        if explained(one_of) is None:
            print("not explained:", one_of)
    print(table())
