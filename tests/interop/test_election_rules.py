"""Elections and the precedence of settings against Kafka's own classes, on thousands of random cases."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs

from kafkalog.cluster.kraft.departures import kraft_departures
from kafkalog.cluster.kraft.election import ElectionRules, after_unclean_restart, with_live_replica
from kafkalog.cluster.kraft.fencing import fencing_order
from kafkalog.cluster.kraft.metadata_image import MIGRATING, BrokerImage, MetadataImage, PartitionImage, TopicImage
from kafkalog.cluster.rules.configuration import TOPIC_SYNONYMS, effective_of_topic
from kafkalog.cluster.zookeeper.election import offline_leader
from kafkalog.cluster.zookeeper.removal import removal_order
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed

pytestmark = pytest.mark.interop

Compared = Callable[[str, int], None]

CHANGES = """
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.*;
import org.apache.kafka.server.common.*;

public final class Changes {
    static int[] numbers(String text) {
        return text.isEmpty() ? new int[0] : Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    static String joined(int[] numbers) {
        return Arrays.stream(numbers).mapToObj(String::valueOf).collect(Collectors.joining(","));
    }

    public static void main(String[] arguments) {
        StringBuilder out = new StringBuilder();
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            String[] f = in.nextLine().split("\\\\|", -1);
            int[] replicas = numbers(f[0]);
            PartitionRegistration before = new PartitionRegistration.Builder().setReplicas(replicas)
                .setDirectories(DirectoryId.migratingArray(replicas.length)).setIsr(numbers(f[1]))
                .setRemovingReplicas(numbers(f[2])).setAddingReplicas(numbers(f[3])).setElr(numbers(f[4]))
                .setLastKnownElr(numbers(f[5])).setLeader(Integer.parseInt(f[6])).setLeaderEpoch(5)
                .setPartitionEpoch(9).setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(f[7]))).build();
            int lost = Integer.parseInt(f[8]);
            Set<Integer> live = Arrays.stream(numbers(f[9])).boxed().collect(Collectors.toSet());
            PartitionChangeBuilder builder = new PartitionChangeBuilder(before, Uuid.ONE_UUID, 0, live::contains,
                MetadataVersion.fromFeatureLevel(Short.parseShort(f[10])), Integer.parseInt(f[11]));
            builder.setEligibleLeaderReplicasEnabled(f[12].equals("1"));
            if (f[13].equals("1")) builder.setElection(PartitionChangeBuilder.Election.UNCLEAN);
            if (f[14].equals("unclean")) builder.setUncleanShutdownReplicas(List.of(lost));
            if (!f[14].equals("live")) builder.setTargetIsr(Replicas.toList(Replicas.copyWithout(before.isr, lost)));
            builder.setDefaultDirProvider(broker -> DirectoryId.UNASSIGNED);
            PartitionRegistration after = builder.build()
                .map(change -> before.merge((PartitionChangeRecord) change.message())).orElse(before);
            out.append(String.join("|", joined(after.replicas), joined(after.isr), joined(after.removingReplicas),
                joined(after.addingReplicas), joined(after.elr), joined(after.lastKnownElr),
                String.valueOf(after.leader), String.valueOf(after.leaderEpoch), String.valueOf(after.partitionEpoch),
                String.valueOf(after.leaderRecoveryState.value()))).append('\\n');
        }
        System.out.print(out);
    }
}
"""

OFFLINE = """
import java.util.*;
import java.util.stream.*;
import kafka.controller.*;
import scala.jdk.javaapi.CollectionConverters;

public final class Offline {
    static List<Object> numbers(String text) {
        if (text.isEmpty()) return List.of();
        return Arrays.stream(text.split(",")).map(Integer::valueOf).collect(Collectors.toList());
    }

    static scala.collection.immutable.Seq<Object> sequence(String text) {
        return CollectionConverters.asScala(numbers(text)).toSeq();
    }

    public static void main(String[] arguments) {
        ControllerContext context = new ControllerContext();
        StringBuilder out = new StringBuilder();
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            String[] f = in.nextLine().split("\\\\|", -1);
            scala.Option<Object> leader = PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection(
                sequence(f[0]), sequence(f[1]), sequence(f[2]).toSet(), f[3].equals("1"), context);
            out.append(leader.isDefined() ? leader.get().toString() : "none").append('\\n');
        }
        System.out.print(out);
    }
}
"""

GROUPED = """
import java.util.*;
import java.util.stream.*;
import scala.jdk.javaapi.CollectionConverters;

public final class Grouped {
    public static void main(String[] arguments) {
        StringBuilder out = new StringBuilder();
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            List<Object> given = Arrays.stream(in.nextLine().split(",")).map(Integer::valueOf)
                .collect(Collectors.toList());
            scala.collection.Map<Object, ?> groups = CollectionConverters.asScala(given).toSeq().groupBy(each -> each);
            out.append(CollectionConverters.asJava(groups.keys().toList()).stream().map(String::valueOf)
                .collect(Collectors.joining(","))).append('\\n');
        }
        System.out.print(out);
    }
}
"""

FENCING = """
package org.apache.kafka.controller;

import java.util.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  //@ >=4.4
import org.apache.kafka.timeline.*;

final class Fencing {
    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (in.hasNextLine()) {
            BrokerHeartbeatTracker tracker = new BrokerHeartbeatTracker(Time.SYSTEM, 10);
            TimelineHashMap<Integer, Long> registered =
                new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
            String[] line = in.nextLine().split(";");
            for (String each : line[0].split(",")) {
                String[] f = each.split(":");
                registered.put(Integer.parseInt(f[0]), Long.parseLong(f[1]));
                if (line[1].equals("changed")) registered.put(Integer.parseInt(f[0]), Long.parseLong(f[1]));
            }
            registered.entrySet().forEach(each ->
                tracker.updateContactTime(new BrokerIdAndEpoch(each.getKey(), each.getValue()), 100));
            List<String> fenced = new ArrayList<>();
            for (Optional<BrokerIdAndEpoch> next = tracker.maybeRemoveExpired(1000); next.isPresent();
                    next = tracker.maybeRemoveExpired(1000))
                fenced.add(String.valueOf(next.get().id()));
            out.append(String.join(",", fenced)).append('\\n');
        }
        System.out.print(out);
    }
}
"""

SETTINGS = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;

public final class Settings {
    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        KafkaConfigSchema schema = kafka.server.KafkaRaftServer.configSchema();
        ObjectMapper json = new ObjectMapper();
        StringBuilder out = new StringBuilder();
        Scanner in = new Scanner(System.in, "UTF-8");
        while (in.hasNextLine()) {
            List<Map<String, Object>> layers = json.readValue(in.nextLine(), List.class);
            Map<String, List<String>> found = new TreeMap<>();
            for (String name : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.keySet()) {
                ConfigEntry entry = schema.resolveEffectiveTopicConfig(
                    name, layers.get(3), layers.get(2), layers.get(1), layers.get(0));
                if (entry.source() != ConfigEntry.ConfigSource.DEFAULT_CONFIG)
                    found.put(name, List.of(entry.value(), entry.source().name()));
            }
            out.append(json.writeValueAsString(found)).append('\\n');
        }
        System.out.print(out);
    }
}
"""


def answers(version: str, main: str, source: str, lines: Sequence[str]) -> list[str]:
    """What a Java program of ours prints for each line."""
    with kafka_needed():
        classes = kafka_jars.compiled(version, main.lower(), {f"{main}.java": source})
    command = kafka_jars.java(version, main, classes=(classes,))
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = done.stdout.splitlines()
    assert len(found) == len(lines)
    return found


def joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


@dataclass(frozen=True)
class Case:
    partition: PartitionImage
    lost: int
    live: tuple[int, ...]
    level: int
    min_isr: int
    elr: bool
    unclean: bool
    event: str = "fenced"
    """or `unclean`, it registers after a crash, or `live`, it is unfenced"""

    @property
    def line(self) -> str:
        each = self.partition
        live = self.acceptable
        least = min(self.min_isr, len(each.replicas))
        lists = (each.replicas, each.isr, each.removing_replicas, each.adding_replicas, each.elr, each.last_known_elr)
        rest = (each.leader, each.leader_recovery_state, self.lost, joined(live), self.level, least, int(self.elr))
        return "|".join((*map(joined, lists), *map(str, rest), str(int(self.unclean)), self.event))

    @property
    def acceptable(self) -> tuple[int, ...]:
        """Brokers that may lead: the lost one is not one of them."""
        if self.event == "live":
            return tuple({*self.live, self.lost})
        return tuple(broker for broker in self.live if broker != self.lost)

    def changed(self) -> PartitionImage:
        """After the event, by the rules alone."""
        rules = ElectionRules(
            acceptable=frozenset(self.acceptable),
            unclean=self.unclean,
            elr=self.elr,
            min_isr=min(self.min_isr, len(self.partition.replicas)),
            epoch_on_shrink=self.level < 12,
            marks_recovery=self.level >= 3,
        )
        if self.event == "live":
            return with_live_replica(self.partition, rules)
        return after_unclean_restart(self.partition, self.lost, rules)

    def answer(self) -> str:
        image = MetadataImage()
        image.topics["t"] = TopicImage("t", "AAAAAAAAAAAAAAAAAAAAAQ", {0: self.partition})
        for number in {*self.partition.replicas, *self.partition.elr, *self.partition.last_known_elr, *self.live}:
            image.brokers[number] = BrokerImage(
                id=number,
                epoch=1,
                incarnation_id=MIGRATING,
                listeners=(),
                rack=None,
                fenced=number not in self.live,
                in_controlled_shutdown=False,
                directories=(),
            )
        image.features = {"metadata.version": self.level, "eligible.leader.replicas.version": int(self.elr)}
        image.configs = {
            "topic:t": {"min.insync.replicas": str(self.min_isr)},
            "broker:": {"unclean.leader.election.enable": str(self.unclean).lower()},
        }
        (found,) = kraft_departures(image, [self.lost])
        return state_line(found.after)


def state_line(each: PartitionImage) -> str:
    lists = (each.replicas, each.isr, each.removing_replicas, each.adding_replicas, each.elr, each.last_known_elr)
    rest = (each.leader, each.leader_epoch, each.partition_epoch, each.leader_recovery_state)
    return "|".join((*map(joined, lists), *map(str, rest)))


def random_case(rng: random.Random) -> Case:
    brokers = rng.sample(range(rng.choice([6, 12, 100])), 6)
    replicas = tuple(rng.sample(brokers, rng.randint(1, 5)))
    in_sync = tuple(rng.sample(replicas, rng.randint(1, len(replicas))))
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    if rng.random() < 0.3:
        count = rng.randint(0, len(replicas))
        moved = rng.sample(replicas, count)
        middle = rng.randint(0, count)
        adding, removing = tuple(moved[:middle]), tuple(moved[middle:])
    outside = [each for each in brokers if each not in in_sync]
    elr = tuple(rng.sample(outside, rng.randint(0, min(3, len(outside))))) if rng.random() < 0.4 else ()
    last = tuple(rng.sample(brokers, rng.randint(1, 2))) if rng.random() < 0.4 else ()
    leader = rng.choice([*in_sync, rng.choice(in_sync), -1])
    partition = PartitionImage(
        replicas, in_sync, leader, 5, 9, (MIGRATING,) * len(replicas), adding, removing, elr, last, rng.randint(0, 1)
    )
    elr_on = rng.random() < 0.6
    level = rng.choice([23, 26, 27] if elr_on else [7, 11, 12, 14, 19, 21, 25, 27])
    live = tuple(each for each in brokers if rng.random() < rng.choice([0.2, 0.8]))
    return Case(partition, rng.choice(in_sync), live, level, rng.randint(1, 4), elr_on, rng.random() < 0.4)


def test_a_lost_replica_changes_partitions_as_the_quorum_controller_does(compared: Compared) -> None:
    rng = random.Random("elections")
    cases = [random_case(rng) for _ in range(20_000)]
    wanted = answers("4.1.0", "Changes", CHANGES, [each.line for each in cases])
    for case, line in zip(cases, wanted, strict=True):
        assert case.answer() == line, case
    leaders = [line.split("|")[6] for line in wanted]
    assert 1000 < leaders.count("-1") < 19_000
    compared("partitions that lost a replica, changed as PartitionChangeBuilder changes them", len(wanted))


def random_start(rng: random.Random) -> Case:
    """A broker that comes back: it registers after a crash, or is unfenced while nobody leads."""
    case = replace(random_case(rng), event=rng.choice(["unclean", "live"]))
    partition = case.partition
    if case.event == "live":
        isr = partition.isr[:1] if not case.elr else rng.choice([(), partition.isr])
        leaderless = structs.replace(partition, leader=-1, isr=isr)
        return replace(case, partition=leaderless, lost=rng.choice(partition.replicas))
    if case.elr and partition.elr and rng.random() < 0.4:
        return replace(case, partition=structs.replace(partition, isr=(), leader=-1), lost=rng.choice(partition.elr))
    return replace(case, partition=partition, elr=True, level=max(case.level, 23))


def test_a_broker_that_comes_back_changes_partitions_as_with_the_quorum_controller(compared: Compared) -> None:
    rng = random.Random("starts")
    cases = [random_start(rng) for _ in range(20_000)]
    wanted = answers("4.1.0", "Changes", CHANGES, [each.line for each in cases])
    for case, line in zip(cases, wanted, strict=True):
        assert state_line(case.changed()) == line, case
    leaders = [line.split("|")[6] for line in wanted]
    assert 1000 < leaders.count("-1") < 19_000
    compared("partitions whose broker came back, changed as PartitionChangeBuilder changes them", len(wanted))


@pytest.mark.parametrize(("version", "level"), [("4.1.0", 27), ("4.3.0", 30), ("4.4.0", 33)])
def test_brokers_are_fenced_in_the_order_of_the_controllers_table(version: str, level: int, compared: Compared) -> None:
    rng = random.Random(version)
    cases = []
    for _ in range(3000):
        most = rng.choice([8, 300, 100_000])
        ids = rng.sample(range(most), rng.choice([2, 3, 5, 8, 8 if most < 20 else rng.randint(9, 30)]))
        cases.append({each: rng.randrange(1 << rng.choice([8, 20, 62])) for each in ids})
    lines = [
        ",".join(f"{each}:{epoch}" for each, epoch in case.items()) + ";" + rng.choice(["changed", "new"])
        for case in cases
    ]
    known = 0
    for case, line in zip(cases, answers(version, "org.apache.kafka.controller.Fencing", FENCING, lines), strict=True):
        brokers = [
            BrokerImage(
                id=each,
                epoch=epoch,
                incarnation_id=MIGRATING,
                listeners=(),
                rack=None,
                fenced=False,
                in_controlled_shutdown=False,
                directories=(),
            )
            for each, epoch in case.items()
        ]
        order = [int(each) for each in line.split(",")]
        for group in fencing_order(brokers, level):
            assert frozenset(order[: len(group)]) == group, (case, line)
            del order[: len(group)]
            known += len(group) == 1
        assert order == []
    compared(f"brokers whose place in the order of fencing is that of Kafka {version}", known)


def test_a_lost_leader_is_followed_as_with_zookeeper(compared: Compared) -> None:
    rng = random.Random("offline")
    cases = []
    for _ in range(20_000):
        brokers = rng.sample(range(20), 6)
        replicas = rng.sample(brokers, rng.randint(1, 5))
        chance = rng.choice([0.2, 0.5, 0.8])
        live = [each for each in brokers if rng.random() < chance]
        cases.append((replicas, rng.sample(replicas, rng.randint(0, len(replicas))), live, rng.random() < 0.5))
    lines = [f"{joined(a)}|{joined(b)}|{joined(c)}|{int(unclean)}" for a, b, c, unclean in cases]
    wanted = answers("3.9.1", "Offline", OFFLINE, lines)
    for (replicas, isr, live, unclean), line in zip(cases, wanted, strict=True):
        found = offline_leader(replicas, isr, live, unclean=unclean)
        assert ("none" if found is None else str(found)) == line
    assert 1000 < wanted.count("none") < 19_000
    compared("leaders elected as PartitionLeaderElectionAlgorithms elects them", len(wanted))


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1"])
def test_brokers_are_taken_out_of_the_isrs_in_the_order_of_scalas_hash_map(version: str, compared: Compared) -> None:
    rng = random.Random("removal")
    cases = [
        rng.sample(range(rng.choice([400, 5000, 2**31 - 1])), rng.randint(1, rng.choice([3, 6, 300])))
        for _ in range(3_000)
    ]
    wanted = answers(version, "Grouped", GROUPED, [joined(each) for each in cases])
    assert [joined(removal_order(each)) for each in cases] == wanted
    compared("orders in which brokers leave the ISRs, as Scala groups them", len(wanted))


GONE_SINCE_4 = {"message.format.version", "message.timestamp.difference.max.ms", "message.downconversion.enable"}


def random_layers(rng: random.Random) -> list[dict[str, str]]:
    """A topic's, a broker's, the cluster's and the static settings."""
    own = {name: str(rng.randrange(1, 90)) for name in TOPIC_SYNONYMS if rng.random() < 0.2}
    names = [name for synonyms in TOPIC_SYNONYMS.values() for name, _ in synonyms]
    values = ["7", " 12 ", "-1", "x", "", "2147483647", "2147483648", "1.5"]
    rest = [{name: rng.choice(values) for name in names if rng.random() < 0.25} for _ in range(3)]
    return [own, *rest]


@pytest.mark.parametrize("version", ["4.1.0", "3.9.1"])
def test_the_setting_that_counts_is_that_of_kafka(version: str, compared: Compared) -> None:
    rng = random.Random(version)
    cases = [random_layers(rng) for _ in range(2000)]
    gone = set() if version == "3.9.1" else GONE_SINCE_4
    count = 0
    seen: set[str] = set()
    for layers, line in zip(cases, answers(version, "Settings", SETTINGS, list(map(json.dumps, cases))), strict=True):
        wanted: dict[str, Any] = json.loads(line)
        topic, broker, cluster, static = layers
        found = effective_of_topic(
            {"topic:t": topic, "broker:3": broker, "broker:": cluster, "broker:4": {"log.segment.bytes": "0"}},
            "t",
            broker=3,
            static=static,
        )
        ours = {name: [each.value, each.source.value] for name, each in found.items()}
        assert {name: each for name, each in ours.items() if name not in gone} == wanted
        seen |= wanted.keys()
        count += len(wanted)
    assert TOPIC_SYNONYMS.keys() - seen == gone
    compared(f"settings of topics resolved as Kafka {version} resolves them", count)
