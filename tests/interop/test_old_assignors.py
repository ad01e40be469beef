"""Groups of old consumers in ZooKeeper: who owns what, by Kafka's own classes of 0.8.2 to 1.1, from the same nodes."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Callable

import pytest

from kafkalog.cluster.assignors.old_assignors import old_round_robin
from kafkalog.cluster.rules.java import string_hash
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, consumer_of_thread, old_groups
from kafkalog.cluster.zookeeper.tree import Node, Tree
from kafkalog.codec.common.errors import UsageError
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed

Compared = Callable[[str, int], None]
GROUPS = int(os.environ.get("KAFKALOG_INTEROP_CASES") or 200)
VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1")
WITH_CONDITIONS = ("0.8.2.2", "0.9.0.1")
WITH_HYPHEN = ("1.1.1",)

ASSIGN = """
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.TreeMap;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.PartitionAssignor;
import kafka.consumer.PartitionAssignor$;
import org.I0Itec.zkclient.IZkConnection;
import org.I0Itec.zkclient.ZkClient;
import org.I0Itec.zkclient.serialize.ZkSerializer;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** Kafka's assignors over nodes that are given line by line. */
public final class OldAssign {
    static final TreeMap<String, String> nodes = new TreeMap<>();

    static Object answer(String name, Object[] arguments) throws Throwable {
        switch (name) {
            case "connect":
                Thread events = new Thread(() -> ((Watcher) arguments[0]).process(new WatchedEvent(
                    Watcher.Event.EventType.None, Watcher.Event.KeeperState.SyncConnected, null)));
                events.setDaemon(true);
                events.start();
                return null;
            case "getZookeeperState": return ZooKeeper.States.CONNECTED;
            case "exists": return nodes.containsKey(arguments[0]);
            case "readData": {
                String data = nodes.get(arguments[0]);
                if (data == null) throw new KeeperException.NoNodeException((String) arguments[0]);
                return data.getBytes(StandardCharsets.UTF_8);
            }
            case "getChildren": {
                String base = arguments[0] + "/";
                List<String> children = new ArrayList<>();
                for (String path : nodes.keySet())
                    if (path.startsWith(base) && path.indexOf('/', base.length()) < 0)
                        children.add(path.substring(base.length()));
                return children;
            }
            case "getServers": return "localhost:1";
            case "close": return null;
            default: throw new UnsupportedOperationException(name);
        }
    }

    public static void main(String[] arguments) throws Exception {
        IZkConnection connection = (IZkConnection) Proxy.newProxyInstance(OldAssign.class.getClassLoader(),
            new Class<?>[] {IZkConnection.class}, (proxy, method, given) -> answer(method.getName(), given));
        ZkClient client = new ZkClient(connection, 10000, new ZkSerializer() {
            public byte[] serialize(Object data) { return ((String) data).getBytes(StandardCharsets.UTF_8); }
            public Object deserialize(byte[] bytes) { return new String(bytes, StandardCharsets.UTF_8); }
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            if (parts[0].equals("clear")) nodes.clear();
            else if (parts[0].equals("node"))
                nodes.put(parts[1], new String(Base64.getDecoder().decode(parts[2]), StandardCharsets.UTF_8));
            else {
                String found;
                try {
                    found = assign(client, parts[0], parts[1], parts[2]);
                } catch (IllegalArgumentException e) {
                    found = "refused";
                } catch (NullPointerException e) {
                    found = "nothing";
                }
                out.append(found).append('\\n');
            }
        }
        System.out.print(out);
        System.out.flush();
        System.exit(0);
    }

    static String assign(ZkClient client, String strategy, String group, String consumer) {
        PartitionAssignor assignor = PartitionAssignor$.MODULE$.createInstance(strategy);
        scala.collection.Map<TopicAndPartition, ConsumerThreadId> map;
        map = assignor.assign(new AssignmentContext(group, consumer, true, client)); //@ <0.9
        map = assignor.assign(new AssignmentContext(group, consumer, true, kafka.utils.ZkUtils.apply(client, false))).get(consumer); //@ >=0.9
        StringBuilder text = new StringBuilder("given");
        scala.collection.Iterator<scala.Tuple2<TopicAndPartition, ConsumerThreadId>> each = map.iterator();
        while (each.hasNext()) {
            scala.Tuple2<TopicAndPartition, ConsumerThreadId> one = each.next();
            text.append(' ').append(one._1().topic()).append('/').append(one._1().partition()).append('/').append(one._2());
        }
        return text.toString();
    }
}
"""  # noqa: E501

PATTERNS = ["t.*", "t[0-3]", "topic|t1,t2", "[^t].*", ".*[.]x", "__.*|t0", "(t|u)\\d+", " 't1.*' ", "(?i)T\\d", "t1?0",
            "\\w+", "t(1|2){1}", "nothing", ".", "\\p{Alpha}\\p{Digit}+", "\\Qt.x\\E", "t[0-9&]*", "u\\d{2}",
            ".*"]  # fmt: skip
TOPICS = [*(f"t{n}" for n in range(13)), *(f"u{n}" for n in range(3)), "topic", "t.x", "__consumer_offsets"]


def a_group(rng: random.Random) -> dict[str, str]:
    """The nodes of one group `g` and its topics, as text by path."""
    topics = rng.sample(TOPICS, rng.randint(1, 8))
    nodes = {"/brokers": "", "/brokers/topics": "", "/consumers": "", "/consumers/g": "", "/consumers/g/ids": ""}
    for topic in topics:
        numbers = list(range(rng.choice([0, 1, 2, 3, 5, 12, 30])))
        if rng.random() < 0.1:
            numbers = rng.sample(range(40), rng.randint(1, 9))
        replicas = {str(number): [rng.randrange(3)] for number in numbers}
        nodes[f"/brokers/topics/{topic}"] = json.dumps({"version": 1, "partitions": replicas})
    same = rng.random() < 0.5
    shared = rng.sample(topics, rng.randint(1, len(topics)))
    for number in range(rng.choice([1, 2, 2, 3, 5, 12])):
        made = f"host-{rng.randrange(3)}-17000000{rng.randrange(10**5):05d}-{rng.getrandbits(32):08x}"
        name = "g_" + rng.choice([made, f"c{number}"])
        kind = rng.choice(["static", "static", "white_list", "black_list"])
        if same:
            streams = rng.choice([1, 1, 2, 11])
            subscription = dict.fromkeys(shared, streams)
            kind = "static"
        elif kind == "static":
            asked = rng.sample([*topics, "missing"], rng.randint(1, len(topics)))
            subscription = {topic: rng.choice([1, 1, 1, 2, 3, 12]) for topic in asked}
        else:
            subscription = {rng.choice(PATTERNS): rng.choice([1, 2, 11])}
        fields = {"version": 1, "subscription": subscription, "pattern": kind, "timestamp": "1700000000000"}
        nodes[f"/consumers/g/ids/{name}"] = json.dumps(fields)
    return nodes


def group_of(nodes: dict[str, str]) -> OldGroup:
    tree = Tree.empty()
    for path, text in {"/brokers": "", "/brokers/ids": "", **nodes}.items():
        tree.put(path, Node(text.encode(), None))
    (found,) = old_groups(tree)
    assert found.problems == ()
    return found


def by_conditions(group: OldGroup, version: str) -> dict[tuple[str, int], str] | None:
    """Round robin as a version does it; None where it refuses."""
    try:
        return old_round_robin(
            group.partitions,
            group.streams,
            same_topics=version in WITH_CONDITIONS,
            brackets=version not in WITH_HYPHEN,
        )
    except UsageError:
        return None


def ties(group: OldGroup, version: str) -> bool:
    form = "{}-{}" if version in WITH_HYPHEN else "[{},{}]"
    places = [form.format(topic, number) for topic, numbers in group.partitions.items() for number in numbers]
    return len({string_hash(place) for place in places}) < len(places)


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_old_assignors_as_kafkas_own_classes(version: str, compared: Compared) -> None:
    rng = random.Random(version)
    groups = []
    lines = []
    for _ in range(GROUPS):
        nodes = a_group(rng)
        group = group_of(nodes)
        groups.append(group)
        lines.append("clear")
        lines += [f"node {path} {base64.b64encode(text.encode()).decode()}" for path, text in nodes.items() if text]
        lines += [f"node {path} {base64.b64encode(b'-').decode()}" for path, text in nodes.items() if not text]
        for each in group.consumers:
            lines += [f"range g {each.consumer_id}", f"roundrobin g {each.consumer_id}"]
    with kafka_needed():
        classes = kafka_jars.compiled(version, "old-assign", {"OldAssign.java": ASSIGN})
    command = kafka_jars.java(version, "OldAssign", classes=(classes,))
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = iter([line for line in done.stdout.splitlines() if line.startswith(("given", "refused", "nothing"))])
    counts = {"range": 0, "roundrobin": 0, "refused": 0, "ties": 0}
    for group in groups:
        derived = {"range": group.assigned("range"), "roundrobin": by_conditions(group, version)}
        for consumer in group.consumers:
            for strategy, owners in derived.items():
                answer = next(answers)
                if answer == "nothing":  # 0.8.2 throws where no consumer has a topic
                    assert (version, owners, group.partitions) == ("0.8.2.2", {}, {})
                    continue
                if answer == "refused":
                    assert owners is None, (version, group)
                    counts["refused"] += 1
                    continue
                assert owners is not None, (version, group)
                mine = {
                    (topic, number): thread
                    for (topic, number), thread in owners.items()
                    if consumer_of_thread(thread) == consumer.consumer_id
                }
                given = [part.split("/") for part in answer.split()[1:]]
                theirs = {(topic, int(number)): thread for topic, number, thread in given}
                if strategy == "roundrobin" and ties(group, version):
                    counts["ties"] += 1
                    continue
                assert mine == theirs, (version, strategy, group)
                counts[strategy] += 1
    assert next(answers, None) is None
    assert counts["range"] > GROUPS
    assert counts["roundrobin"] > GROUPS / 2
    assert bool(counts["refused"]) is (version in WITH_CONDITIONS)
    assert counts["ties"] < GROUPS / 20
    for strategy in ("range", "roundrobin"):
        compared(f"consumers of {version} and what {strategy} gives them", counts[strategy])
    if counts["refused"]:
        compared(f"groups that round robin of {version} refuses, asked for each consumer", counts["refused"])
