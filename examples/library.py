"""Every function that `import kafkalog` offers, used once: written, read, damaged, repaired and brought back.

    python3 examples/library.py DIRECTORY CONTROLLER BROKER REMOTE

works in DIRECTORY, which must be new; CONTROLLER is the log directory of the only controller that is left of a KRaft
quorum, and is changed too.  BROKER is the log directory of a broker with tiered logs, and REMOTE its remote tier.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import kafkalog

DAY_MS = 86_400_000
WRITTEN = 1_700_000_000_000


def write(place: Path) -> None:
    """A topic of three partitions, a compacted one, and what a group has read of the first."""
    with kafkalog.Producer(place, num_partitions=3) as producer:
        for number in range(300):
            key = f"customer {number % 7}".encode()
            producer.send("orders", b"order %d" % number, key=key, timestamp=WRITTEN + number)
            producer.send("names", b"name %d" % number, key=key, timestamp=WRITTEN + number)
    wanted = kafkalog.partition_for_key(b"customer 1", 3)
    assert kafkalog.legacy_partition(b"customer 1", 3) in range(3)
    number = kafkalog.commit_offsets(place, "readers", {("orders", wanted): 5}, offsets_topic_num_partitions=1)
    print(f"committed in __consumer_offsets-{number}:", kafkalog.GroupOffsets(place, "readers").load())


def read(place: Path) -> None:
    """The same records through each way of reading."""
    log_dir = kafkalog.open_log_dir(place)
    assert [each.path for each in kafkalog.open_all(place).partitions] == [each.path for each in log_dir.partitions]
    partition = log_dir["orders", kafkalog.partition_for_key(b"customer 1", 3)]
    records = list(partition.records())
    print(partition.path, "holds", len(records), "records, the first", records[0].value)
    assert kafkalog.open_partition(partition.path).to_arrow().read_all().num_rows == len(records)
    segment = kafkalog.open_segment(partition.segments[0].path)
    scanned = kafkalog.scan(Path(partition.segments[0].path).read_bytes())
    assert scanned.stop is kafkalog.StopReason.END
    first: kafkalog.RecordBatch = next(iter(segment.batches()))
    assert tuple(kafkalog.decode_batch(first).records) == kafkalog.iter_records(first)
    print("explained:", [part.what for part in kafkalog.explain(partition.segments[0].path, offset=0).parts])
    (fetched,) = kafkalog.multifetch(log_dir, [(("orders", partition.partition or 0), 0, 1 << 20)])
    assert fetched.error_code is kafkalog.ErrorCode.NO_ERROR, fetched.error
    streams = kafkalog.open_streams(log_dir, 2, topics=["orders"])
    assert sum(len(list(stream)) for stream in streams) == 300
    followed = kafkalog.follow(place, topics=["names"], reset="earliest", consumer_timeout_ms=0)
    assert len(list(followed)) == 300


def retain(place: Path) -> None:
    """What retention by the time of files would delete: nothing of today's."""
    with kafkalog.Log.open(place / "orders-0", kafkalog.LogConfig()) as log:
        deletable: kafkalog.DeletionPolicy = kafkalog.by_file_time(DAY_MS)
        assert log.delete_old_segments(deletable) == 0


def damage(place: Path) -> Path:
    """One bit of the last byte of a log."""
    path = max(place.glob("orders-*/*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return path


def repair(place: Path, copy: Path) -> None:
    """Damage found, compared with a copy, merged with it, repaired, undone, and forgotten."""
    damaged = damage(place)
    name = kafkalog.Selection.of(["orders"])
    (health,) = kafkalog.health(place, select=name)
    print("health:", {each.partition.path: each.words for each in health.partitions if not each.is_sound})
    assert not kafkalog.verify(place).is_clean
    assert kafkalog.report(place, select=name).markdown().startswith("##")
    assert not kafkalog.compare(place, copy, select=name).is_clean
    copies = [damaged.parent, copy / damaged.parent.name]
    merged = kafkalog.merge_replicas(*copies, target=place.parent / "one" / damaged.parent.name)
    assert kafkalog.merge_preview(*copies).records_kept == merged.records_kept
    assert kafkalog.merge_directories(place, copy, target=place.parent / "merged").partitions
    print(kafkalog.plan(kafkalog.Recovery(select=name), place)[0].as_dict()["recommended_way"])
    consent = kafkalog.Recovery(accept_loss=True)
    into = kafkalog.recover_into(consent, place, target=place.parent / "repaired")
    assert into.changed
    done = kafkalog.recover(consent, place)[0]
    assert [run.run_id for run in kafkalog.runs(place)] == [done.run_id]
    kafkalog.undo(kafkalog.Undo(run_ids=[done.run_id or ""]), place)
    (again,) = kafkalog.recover(consent, place)
    (rebuilt,) = kafkalog.rebuild_indexes(place)
    assert not kafkalog.rebuild_indexes(place)[0].changed
    assert kafkalog.verify(place).is_clean
    kept = [run_id for run_id in (again.run_id, rebuilt.run_id) if run_id is not None]
    print("forgotten:", len(kafkalog.purge(kafkalog.Purge(run_ids=kept), place)[0].purged), "runs")


def clean(place: Path) -> None:
    """One pass of the cleaner over the topic of names."""
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    request = kafkalog.Compaction(config=config, select=kafkalog.Selection.of(["names"]))
    plans = kafkalog.plan_compaction(request, place)
    kafkalog.compact(request, place, expected=plans)
    assert [done.changed for done in kafkalog.compact(request, place)] == [False]
    kafkalog.compact_into(request, place, target=place.parent / "compacted")


def ask(place: Path, controller: Path) -> None:
    """What a group has read, who wrote, what fills the disk, what retention would delete, what a controller knew."""
    (offset,) = kafkalog.offsets(place).committed
    print("offset:", offset.commit.offset, "lag:", offset.lag)
    assert len(kafkalog.offset_history(place).changes) == 1
    (group,) = kafkalog.groups(place, groups=[offset.commit.key.group]).groups
    print("group:", group.group_id, group.state)
    assert kafkalog.transactions(place).open_transactions == ()
    largest = kafkalog.top(kafkalog.TopQuestion(by=[kafkalog.TopBy.PARTITION], most=1), place).groups[0]
    print("largest:", largest.topic, largest.partition)
    segments = kafkalog.retention(place, at=WRITTEN, select=kafkalog.Selection.of(["orders"])).partitions
    assert sum(each.segments_going for each in segments) == 0
    known = kafkalog.metadata(controller, as_of=kafkalog.Moment())
    history = kafkalog.metadata_history(controller).changes
    settings = kafkalog.effective_settings(controller, defaults=False).settings
    terms = kafkalog.elections(controller).terms
    print("metadata:", len(known.topics), "topics,", len(history), "changes,", len(settings), "settings,", len(terms))
    for broker in sorted(known.brokers):
        left = kafkalog.departures(controller, brokers=[broker]).departures
        print("without", broker, len(left))


def bring_back(place: Path) -> None:
    """A topic that a broker has begun to delete, taken out and put back."""
    for directory in list(place.glob("names-*")):
        directory.rename(directory.with_name(f"{directory.name}.{'0' * 31}{directory.name[-1]}-delete"))
    remains: Sequence[kafkalog.Remains] = kafkalog.deleted(place, topic="names")
    print("deleted:", [each.path for each in remains])
    request = kafkalog.Undelete(topic="names")
    kafkalog.undelete_into(request, place, target=place.parent / "taken-out")
    (done,) = kafkalog.undelete(request, place, expected=kafkalog.plan_undelete(request, place))
    kafkalog.undo(kafkalog.Undo(run_ids=[done.run_id or ""]), place)
    kafkalog.undelete(request, place)
    kafkalog.undo(place)


def lead(controller: Path) -> None:
    """A quorum of which one controller is left, and what elections after a power cut would make of it."""
    (quorum,) = kafkalog.read_quorum(controller)
    print("quorum:", quorum.cluster_id, [each.log.node for each in quorum.survivors])
    print("triage:", len(kafkalog.triage(controller).partitions), "partitions")
    standalone = kafkalog.QuorumWay.STANDALONE
    wanted = kafkalog.QuorumRecovery(way=standalone, others_are_gone=True)
    kafkalog.recover_quorum(wanted, controller, expected=kafkalog.plan_quorum(wanted, controller))


def see_both_tiers(place: Path, broker: Path, remote: Path) -> None:
    """Tiered logs: what the remote tier holds, whether it is whole, and its events written again."""
    tier = kafkalog.open_tier(str(remote))
    events = kafkalog.read_remote_metadata(kafkalog.open(broker).partitions)
    seen = kafkalog.inspect_remote(broker, remote=tier)
    print("remote:", len(events.segments), "segments by events,", len(seen.rows), "seen")
    assert kafkalog.verify_remote(tier, broker).is_clean
    kafkalog.rebuild_remote_metadata(kafkalog.RemoteMetadataRebuild(partitions=1), tier, target=place / "events")


def see_schemas(place: Path) -> None:
    """A schema registry: here a folder of schemas, else the log directory that has `_schemas`."""
    place.mkdir()
    (place / "orders-value@7.avsc").write_text('{"type": "record", "name": "Order", "fields": []}', encoding="utf-8")
    print("subjects:", sorted(each.subject for each in kafkalog.read_schemas(place).schemas.values()))


def make_tables(data: Path, target: Path) -> None:
    """Records of a topic as Parquet, each once however often it is asked for."""
    for _ in range(2):
        done: kafkalog.ExportResult = kafkalog.export(
            kafkalog.Export(format="parquet", values="bytes"), data, target=target
        )
        added: Sequence[kafkalog.ExportedPartition] = done.partitions
        print("exported:", sum(each.records for each in added), "records")


def main(place: Path, controller: Path, broker: Path, remote: Path) -> None:
    """All of it."""
    place.mkdir(parents=True)
    data, copy = place / "data", place / "copy"
    write(data)
    shutil.copytree(data, copy)
    read(data)
    retain(data)
    repair(data, copy)
    clean(data)
    ask(data, controller)
    bring_back(data)
    lead(controller)
    see_both_tiers(place, broker, remote)
    see_schemas(place / "schemas")
    make_tables(data, place / "tables")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
