"""Where a controller ends that cannot apply a record of its metadata."""

from __future__ import annotations

from kafkalog.cluster.layout import cluster_metadata
from kafkalog.cluster.records.framed_records import FramedRecord
from kafkalog.cluster.records.messages import Decoded
from kafkalog.recovery.broker.node.reading import MetaBatch
from kafkalog.recovery.broker.node.releases import release_of
from kafkalog.recovery.broker.node.replay import Replay

REMOVE_TOPIC = 9


def removal(offset: int) -> MetaBatch:
    """A batch that removes a topic that does not exist."""
    layout = cluster_metadata.VALUES[REMOVE_TOPIC][0]
    decoded = Decoded(layout, 0, {"topic_id": "AQIDBAUGBwgJCgsMDQ4PEA"}, 0)
    records = (FramedRecord(REMOVE_TOPIC, 0, None, decoded),)
    return MetaBatch(base_offset=offset, next_offset=offset + 1, epoch=0, is_control=False, records=records)


def test_the_first_record_that_a_controller_cannot_apply_ends_it_also_if_batches_come_one_by_one() -> None:
    replay = Replay(release=release_of("4.1"), is_controller=True)
    for batch in (removal(5), removal(8)):
        replay.take([batch])
    assert replay.contradiction is not None
    assert (replay.contradiction.record, replay.contradiction.offset) == ("RemoveTopicRecord", 5)
    assert replay.records == 1
