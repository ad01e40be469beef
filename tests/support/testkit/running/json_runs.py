"""Command lines whose JSON is held against docs/json: every command that has `--json`, on directories of all kinds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from kafkalog.log import open_all
from kafkalog.replay.target import progress_topic
from testkit.kafka.mock_cluster import mock_cluster
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.recorded.fixture_data import recovery_cases, tiered_case, unpack_values
from testkit.running.command import Finished, kafkalog
from testkit.serving.the_server import the_command

Run = tuple[str, Finished]
"""name of a schema in docs/json, and what a command line of it gave"""

CLUSTERS = ("4.1.1/segments", "4.1.1/metadata", "4.1.1/txn", "4.3.0/segments", "4.1.1/groups")
"""Every other one of them is enough for each command to print a line."""
FAMILIES = ("torn_tail", "bit_flip", "middle_cut", "index_files", "checkpoints", "snapshots", "segment_set")


def readers(directory: Path) -> Iterator[Run]:
    """What reads a log directory and changes nothing."""
    for name in ("ls", "verify", "plan"):
        yield name, kafkalog(name, "--json", directory)
    yield "verify", kafkalog("verify", "--json", "--shallow", directory)
    yield "index-verify", kafkalog("index", "verify", "--json", directory)
    yield "plan", kafkalog("recover", "--dry-run", "--json", "--mode", "salvage", directory)
    yield "runs", kafkalog("runs", "--json", directory)
    yield "undelete", kafkalog("undelete", "--json", directory)
    yield "staging", kafkalog("staging", "--json", directory)
    yield "compact", kafkalog("compact", "--dry-run", "--json", "--config", "cleanup.policy=compact", directory)
    yield "retention", kafkalog("retention", "--json", directory)
    for by in ("partition", "key", "producer", "minute", "repeat"):
        yield "top", kafkalog("top", "--json", "--by", by, directory)


def dumps(directory: Path) -> Iterator[Run]:
    """What prints the content of files."""
    yield "dump", kafkalog("dump", "--json", "--all", "-n", 300, directory)
    yield "dump", kafkalog("dump", "--json", "--encoding", "base64", "-n", 50, directory)
    yield "dump", kafkalog("dump", "--json", "--batches", "-n", 200, directory)
    yield "dump", kafkalog("dump", "--json", "--metadata", "--no-decode", "-n", 50, directory)
    for topic in ("__consumer_offsets", "__transaction_state", "__cluster_metadata"):
        yield "dump", kafkalog("dump", "--json", "--all", "-n", 300, "-t", topic, directory)
    yield "find", kafkalog("find", "--json", "--time", "latest", "--time", "max-timestamp", "--time", 0, "--offset", 5,
                           "--offset", 10**6, directory)  # fmt: skip
    for path in sorted(directory.rglob("*.log"))[:3]:
        yield "explain", kafkalog("explain", "--json", "--max-fields", 90, path)
    seen: set[str] = set()
    for path in sorted(directory.rglob("*")):
        kind = path.suffix or path.name
        if path.is_file() and path.suffix != ".log" and kind not in seen:
            seen.add(kind)
            finished = kafkalog("dump", "--json", "-n", 20, path)
            if finished.code in (0, 1):
                yield "dump", finished


def served(directory: Path) -> Iterator[Run]:
    """The line of a server, which is then told to end."""
    with the_command("--listen", "127.0.0.1:0", "--json", directory) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        rest, _ = process.communicate(timeout=30)
    yield "serve", Finished(process.returncode, line + rest, "")


def replayed(scratch: Path) -> Iterator[Run]:
    """Records and offsets of groups into a cluster, which has committed for one of the groups already."""
    (directory,) = brokers("4.1.1/groups")
    topics = {each.topic for each in open_all(directory).readable() if each.topic and not each.topic.startswith("__")}
    made = [*topics, *(f"other.{each}" for each in topics), *map(progress_topic, ("replay", "another"))]
    with mock_cluster(made) as bootstrap:  # it creates none for a client
        given = ("--json", "--yes", "--bootstrap-server", bootstrap, directory)
        yield "replay", kafkalog("replay", "--id", "replay", "--map", scratch / "map.parquet", *given)
        once_more = ("--id", "another", "--without-groups", "--prefix", "other.", "--map", scratch / "other.parquet")
        yield "replay", kafkalog("replay", *once_more, *given)


def cluster(directory: Path) -> Iterator[Run]:
    """What the cluster knew."""
    names = {each.name for each in directory.iterdir()}
    if any(name.startswith("__consumer_offsets-") for name in names):
        yield "offsets", kafkalog("offsets", "--json", directory)
        yield "offsets", kafkalog("offsets", "--json", "--pending", directory)
        yield "offsets", kafkalog("offsets", "--json", "--history", directory)
        yield "groups", kafkalog("groups", "--json", "--with", "one more", directory)
    yield "transactions", kafkalog("transactions", "--json", directory)
    if "__cluster_metadata-0" in names:
        yield "metadata", kafkalog("metadata", "--json", directory)
        yield "metadata", kafkalog("metadata", "--json", "--history", directory)
        yield "metadata", kafkalog("metadata", "--json", "--effective", directory)
        yield "elections", kafkalog("elections", "--json", "--all", directory)
        yield "triage", kafkalog("triage", "--json", directory)
        yield "quorum-show", kafkalog("quorum", "show", "--json", directory)
        yield "quorum-recover", kafkalog("quorum", "recover", "--json", "--dry-run", "--standalone", directory)
        node = next((line[8:] for line in (directory / "meta.properties").read_text().splitlines()
                     if line.startswith("node.id=")), "1")  # fmt: skip
        yield "elections", kafkalog("elections", "--json", "--without", node, directory)


def zookeeper(directory: Path) -> Iterator[Run]:
    """What ZooKeeper knew."""
    yield "zk", kafkalog("zk", "--json", directory)
    yield "zk", kafkalog("zk", "--json", "--hide-secrets", directory)
    yield "elections", kafkalog("elections", "--json", "--all", directory)
    yield "offsets", kafkalog("offsets", "--json", directory)
    yield "groups", kafkalog("groups", "--json", directory)
    yield "metadata", kafkalog("metadata", "--json", "--effective", directory)


def several(case_id: str, scratch: Path) -> Iterator[Run]:
    """Several brokers' volumes at once."""
    found = brokers(case_id)
    for name in ("ls", "verify", "plan", "runs"):
        yield name, kafkalog(name, "--json", *found)
    yield "compare", kafkalog("compare", "--json", *found)
    yield "triage", kafkalog("triage", "--json", *found)
    yield "merge", kafkalog("merge", "--json", "--into", scratch / "merged", *found)
    yield "recover", kafkalog("recover", "--json", *found)


def tiered(scratch: Path) -> Iterator[Run]:
    """Logs in two tiers."""
    root = tiered_case("cut-short").unpack(scratch / "tiered")
    yield "ls", kafkalog("ls", "--json", root / "broker")
    yield "remote", kafkalog("remote", "--json", root / "broker")
    yield "remote", kafkalog("remote", "--json", root / "broker", "--remote", root / "remote")
    yield "remote", kafkalog("remote", "--json", "--remote", root / "remote")
    rebuilt = ("--into", scratch / "events", root / "broker", "--remote", root / "remote")
    yield "remote", kafkalog("remote", "rebuild-metadata", "--json", *rebuilt)
    values = unpack_values(scratch / "values")
    yield "schemas", kafkalog("schemas", "--json", values)
    yield "dump", kafkalog("dump", "--json", "--values", "auto", values)
    for _ in range(2):
        wanted = ("--format", "parquet", "--to", scratch / "tables", "-t", "references-cedar")
        yield "export", kafkalog("export", "--json", *wanted, values)
    yield "verify", kafkalog("verify", "--json", root / "broker", "--remote", root / "remote")
    yield "find", kafkalog("find", "--json", "--offset", 5, root / "broker", "--remote", root / "remote")
    yield "dump", kafkalog("dump", "--json", "-n", 20, root / "broker", "--remote", root / "remote")


def acting(directory: Path, scratch: Path) -> Iterator[Run]:
    """What changes a directory, on copies of it: recovered, taken back, indexes rebuilt, compacted, purged."""
    copy = own_copy(directory, scratch / "acted-on")
    yield "recover", kafkalog("recover", "--json", copy)
    yield "recover", kafkalog("recover", "--json", "--yes", "--accept-loss", copy)
    yield "runs", kafkalog("runs", "--json", copy)
    yield "ls", kafkalog("ls", "--json", copy)
    yield "undelete", kafkalog("undelete", "--json", copy)
    yield "undo", kafkalog("undo", "--json", "--yes", copy)
    yield "runs", kafkalog("runs", "--json", copy)
    yield "recover", kafkalog("recover", "--json", "--into", scratch / "into", "--accept-loss", copy)
    yield "recover", kafkalog("recover", "--json", "--yes", "--accept-loss", copy)
    yield "index-rebuild", kafkalog("index", "rebuild", "--json", "--yes", copy)
    config = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    yield "compact", kafkalog("compact", "--json", "--yes", *config, copy)
    yield "runs", kafkalog("runs", "--json", "--yes", "--purge-older-than", 0, copy)
    yield "recover", kafkalog("recover", "--json", scratch / "not there")


def deleted(directory: Path, scratch: Path) -> Iterator[Run]:
    """Partitions that wait for their deletion: listed, written elsewhere, put back."""
    copy = own_copy(directory, scratch / "deleted")
    partition = next(each for each in sorted(copy.glob("*-0")) if not each.name.startswith("__"))
    topic = partition.name.removesuffix("-0")
    partition.rename(copy / f"{topic}-0.0123456789abcdef0123456789abcdef-delete")
    yield "ls", kafkalog("ls", "--json", copy)
    yield "undelete", kafkalog("undelete", "--json", copy)
    yield "undelete", kafkalog("undelete", "--json", "--topic", topic, "--into", scratch / "taken out", copy)
    yield "undelete", kafkalog("undelete", "--json", "--topic", topic, "--yes", copy)


def built(scratch: Path) -> Iterator[Run]:
    """Directories from records, and offsets carried over from ZooKeeper."""
    lines = scratch / "records.jsonl"
    lines.write_text("".join(json.dumps({"topic": "t", "key": str(n), "value": "v"}) + "\n" for n in range(9)))
    yield "build", kafkalog("build", "--json", "--into", scratch / "built", "--partitions", 2, lines)
    finished = kafkalog("offsets", "--json", "--migrate", "kafka", "--into", scratch / "migrated",
                        unpacked("2.8.2/zkhist") / "zookeeper")  # fmt: skip
    yield "offsets", finished


def every_run(scratch: Path, each: int = 1) -> Iterator[Run]:
    """All of them, on every so many of the directories of one kind."""
    for number, case_id in enumerate(CLUSTERS[:: min(each, 2)]):
        for broker in brokers(case_id)[:1]:
            for group in (readers, dumps, cluster):
                yield from group(broker)
        if number == 0:
            yield from served(broker)
            yield from replayed(scratch)
            yield from acting(broker, scratch)
            yield from deleted(broker, scratch)
    zkhist = unpacked("2.8.2/zkhist")
    yield from zookeeper(zkhist / "zookeeper")
    yield from several("2.8.2/zkhist", scratch)
    for family in FAMILIES[::each]:
        case = recovery_cases([family])[0]
        root = case.unpack_before(scratch / family / "logs")
        yield from readers(root)
        yield from acting(root, scratch / family)
        shutil.rmtree(scratch / family)
    yield from built(scratch)
    yield from tiered(scratch)
