"""Plain data are Structs: frozen, and made with names if they have more than three fields."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import msgspec

import kafkalog

MOST_POSITIONAL = 3
BY_POSITION = {
    "a reader makes one for each batch, record, entry or field": (
        "cluster.groups.offset_history.OffsetChange", "cluster.groups.offsets.CommittedOffset",
        "cluster.groups.share_state.StateBatch", "cluster.kraft.metadata_image.PartitionImage",
        "cluster.kraft.metadata_log.MetadataEvent", "cluster.records.coordinator_records.CoordinatorRecord",
        "cluster.records.entries.Entry", "cluster.records.entries.Marker",
        "cluster.records.framed_records.FramedRecord", "cluster.records.messages.Decoded",
        "cluster.zookeeper.tree.Node", "codec.columnar.pieces.Part", "codec.headers.one_batch.OneBatch",
        "codec.model.AbortedTransaction", "codec.model.BatchHeader", "codec.model.LegacyHeader",
        "codec.model.ProducerEntry", "codec.model.Record", "copies.stretches.Row", "inspect.annotated.FieldBytes",
        "inspect.stretches.BatchFacts", "inspect.stretches.Stretch", "log.walk.header_walk.Span",
    ),
    "one for each fault, of which a damaged file can have as many as batches; code, severity and place stand first": (
        "codec.common.findings.BatchOutline", "codec.common.findings.Finding", "codec.common.findings.Unread",
    ),
    "its fields are those of `AbortedTransaction`, and it is made with their names": (
        "log.reading.transactions.Undecided",
    ),
    "a request of a client, or a part of its answer": (
        "producer.multifetch.Fetched", "server.answers.Later", "server.wire.Request",
    ),
    "rows of a table in the source, whose first values stand in columns": (
        "cli.tables.Column", "codec.common.finding_codes.FindingSpec", "codec.common.options.Option",
        "codec.layout.bits.Bit",
    ),
    "stored by tables as an array": (
        "tables.positions.Position",
    ),
    "given to `append` by position: value and key, and the producer's numbers in the order of the batch": (
        "codec.encode.batch.ProducerState", "log.writing.incoming.NewRecord",
    ),
}  # fmt: skip
"""Structs with more fields that are given by position, by the reason (a call with names takes longer)."""
TUPLES = {
    "compiled code takes or gives its numbers in this order": (
        "codec.headers.rebuild_segment.IndexLimits", "codec.headers.rebuild_segment.ProducerBatches",
        "codec.headers.rebuild_segment.Progress",
    ),
    "made of each record, and unpacked": ("codec.rules.execution.RawRecord",),
}  # fmt: skip
"""Named tuples with more than three fields, by the reason why they are no Structs."""
CHANGED = (
    "cli.dump.decoded_values.ShownValues", "cli.dump.decoded_values._Problem", "cli.dump.kafka_logs._Gaps",
    "cli.dump.records.Walk", "cli.dump.sinks.TextSink", "cluster.assignors.sticky_general._HashSet",
    "cluster.groups.groups._Building", "cluster.groups.share_state._Building",
    "cluster.kraft.metadata_log.MetadataState", "cluster.kraft.quorum.Quorum",
    "cluster.kraft.quorum.QuorumSurvivor", "cluster.zookeeper.replay.Replay", "cluster.zookeeper.timeline.Timeline",
    "cluster.zookeeper.tree.Node", "codec.columnar.run_decoder.Order", "codec.parsing.trace.Spans",
    "copies.batch_epochs.EpochRun", "copies.compare._Facts", "copies.comparison.CopyReport",
    "copies.difference.CopyDifference", "copies.merge_copies.MergedLog", "copies.merge_copies.MergedSegment",
    "copies.merge_copies._Read", "copies.merge_result.CopyShare", "copies.merge_result.MergeResult",
    "copies.merge_result.MergedDirectory", "copies.merge_result.MergedRange", "copies.merged_stretches.Tally",
    "copies.stretches._SingleStretch", "copies.volumes.Shelf", "inspect.remote_rows.RemotePartition",
    "inspect.timeline.Timeline", "inspect.top_counting._Counted", "jobs.compact.cleaning.CompactedPartition",
    "jobs.restore.events.RebuiltEvents", "jobs.triage.logs.BrokerDisks", "jobs.triage.outcome.PartitionTriage",
    "log.reading.in_order._Own", "log.storage.cleaning.batch_retention.BatchRetention",
    "log.storage.cleaning.batch_retention.CleanedCounts", "log.storage.cleaning.cleanable_log.CleanableLog",
    "log.storage.loader.LoadedLog", "log.storage.producers.state.ProducerStateEntry",
    "log.walk.behind_damage.BehindDamage", "log.writing.building.Built", "recovery.broker.manager.BrokerResult",
    "recovery.broker.node.leader.Leaders", "recovery.broker.node.metadata_log.Contents",
    "recovery.broker.node.replay.Replay", "recovery.broker.node_start._Context",
    "recovery.checks.report.DirectoryReport", "recovery.checks.report.PartitionReport",
    "recovery.damage.census.Census", "recovery.damage.soundness.SoundLog", "recovery.decide.counting.WayResult",
    "recovery.decide.partition_plan.PartitionPlan", "recovery.decide.ways.Measured",
    "recovery.decide.written_end.Written", "recovery.recovery_job._Planned", "recovery.safe.result.SafeResult",
    "server.answers.Later", "server.groups.consumer_group.ConsumerGroup",
    "server.groups.consumer_group.ConsumerMember", "server.groups.group.Group", "server.groups.group.Member",
    "server.handlers.fetch._Found", "server.handlers.sessions.Asked", "server.handlers.sessions.FetchSession",
    "tables.data_files.DataFile", "tables.exporting.ExportResult", "tables.exporting.ExportedPartition",
    "values.arrow_types._Avro", "values.avro_schema._Walk", "values.registry.SchemaRegistry",
    "values.used_ids.UsedId",
)  # fmt: skip
"""Structs that are filled while something is read, counted or served: an attribute of each is assigned somewhere."""


@cache
def structs() -> dict[str, type[msgspec.Struct]]:
    """Every Struct by module and name, without the package."""
    found = {}
    for each in pkgutil.walk_packages(kafkalog.__path__, "kafkalog."):
        if not each.name.endswith("__main__"):
            for name, kind in vars(importlib.import_module(each.name)).items():
                if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == each.name:
                    found[f"{each.name.removeprefix('kafkalog.')}.{name}"] = kind
    return found


def test_a_struct_with_more_than_three_fields_is_made_with_their_names() -> None:
    several = {name for name, kind in structs().items() if len(kind.__match_args__) > MOST_POSITIONAL}
    assert several == {name for names in BY_POSITION.values() for name in names}
    assert len(structs()) > 600


def test_plain_data_with_more_than_three_fields_is_no_tuple() -> None:
    tuples = set()
    for module in pkgutil.walk_packages(kafkalog.__path__, "kafkalog."):
        if not module.name.endswith("__main__"):
            for name, kind in vars(importlib.import_module(module.name)).items():
                is_tuple = isinstance(kind, type) and issubclass(kind, tuple) and kind.__module__ == module.name
                if is_tuple and len(getattr(kind, "_fields", ())) > MOST_POSITIONAL:
                    tuples.add(f"{module.name.removeprefix('kafkalog.')}.{name}")
    assert tuples == {name for names in TUPLES.values() for name in names}


def test_a_struct_is_frozen_unless_it_is_changed() -> None:
    assert {name for name, kind in structs().items() if not kind.__struct_config__.frozen} == {*CHANGED}
