"""Plans: what is pure about them, on made-up segments, and what they are for recorded directories."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.model import AbortedTransaction
from kafkalog.log import open_all
from kafkalog.log.reading.slices import NO_END
from kafkalog.log.walk.header_walk import Span
from kafkalog.spark.discovery import expand_paths, plan_read
from kafkalog.spark.options import parse_options
from kafkalog.spark.planning import PartitionFacts, Piece, SegmentFacts, plan, target_bytes
from kafkalog.spark.query_warnings import tell
from kafkalog.spark.source import KafkaLogSource
from testkit.recorded.broker_dirs import brokers


def span(start: int, end: int, first_offset: int, next_offset: int) -> Span:
    """One that begins where it should."""
    return Span(start, end, first_offset, next_offset, first_offset)


def facts(
    sizes: list[list[int]], *, start: int = 0, end: int = NO_END, aborted: tuple[AbortedTransaction, ...] | None = None
) -> PartitionFacts:
    """Segments of batches of the given sizes, ten offsets each."""
    segments = []
    offset = 0
    for number, batches in enumerate(sizes):
        base, position, spans = offset, 0, []
        for size in batches:
            spans.append(span(position, position + size, offset, offset + 10))
            position += size
            offset += 10
        segments.append(
            SegmentFacts(path=f"{number}.log", base_offset=base, spans=tuple(spans), is_last=number == len(sizes) - 1)
        )
    return PartitionFacts(
        topic="t", partition=0, segments=tuple(segments), start_offset=start, end_offset=end, aborted=aborted
    )


def all_pieces(tasks: list[tuple[Piece, ...]]) -> list[Piece]:
    return [piece for task in tasks for piece in task]


SIZES = st.lists(st.lists(st.integers(61, 5000), min_size=1, max_size=30), min_size=1, max_size=5)


@given(SIZES, st.integers(1, 20_000))
def test_pieces_cover_every_byte_once_and_in_order(sizes: list[list[int]], target: int) -> None:
    pieces = all_pieces(plan([facts(sizes)], target))
    by_file: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_file.setdefault(piece.slice.path, []).append(piece)
    assert [sum(batches) for batches in sizes] == [found[-1].slice.end for found in by_file.values()]
    for found in by_file.values():
        assert found[0].slice.start == 0
        assert all(one.slice.end == other.slice.start for one, other in pairwise(found))
    assert [piece.slice.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    starts = [(piece.slice.start_offset, piece.slice.expected) for piece in by_file["0.log"]]
    assert starts == [(0, None), *((start, start) for start, _ in starts[1:])]


@given(SIZES, st.integers(100, 20_000))
def test_tasks_are_balanced(sizes: list[list[int]], target: int) -> None:
    tasks = plan([facts(sizes)], target)
    largest_batch = max(max(batches) for batches in sizes)
    assert all(sum(piece.slice.size for piece in task) <= 2.5 * target + 2 * largest_batch for task in tasks)
    shared = [sum(piece.slice.size for piece in task) for task in tasks if len(task) > 1]
    assert all(size <= 1.25 * target for size in shared)
    beginnings = [(task, following[0]) for task, following in pairwise(tasks)]
    assert all(sum(piece.slice.size for piece in (*task, first)) > 1.25 * target for task, first in beginnings)


def test_equal_partitions_of_less_than_whole_targets_are_equal_tasks() -> None:
    partitions = [facts([[1000] * 27])] * 4
    target = target_bytes(4 * 27_000, largest=10_000, min_partitions=None, cores=2)
    assert [sum(piece.slice.size for piece in task) for task in plan(partitions, target)] == [9000] * 12


@given(SIZES, st.integers(0, 100), st.integers(1, 100))
def test_what_lies_outside_of_the_offsets_is_not_read(sizes: list[list[int]], start: int, more: int) -> None:
    end = start + more
    pieces = all_pieces(plan([facts(sizes, start=start, end=end)], 1))
    last = 10 * sum(map(len, sizes))
    reached = {(span.first_offset, piece.slice.path) for piece in pieces for span in spans_of(sizes, piece)}
    assert all(first < end and first + 10 > start for first, _ in reached)
    assert len(reached) == len([first for first in range(0, last, 10) if first < end and first + 10 > start])


def spans_of(sizes: list[list[int]], piece: Piece) -> list[Span]:
    segment = next(each for each in facts(sizes).segments if each.path == piece.slice.path)
    return [span for span in segment.spans if piece.slice.start <= span.start < piece.slice.end]


@given(SIZES, st.integers(1, 40))
def test_a_most_of_records_cuts_inside_of_batches_too(sizes: list[list[int]], most: int) -> None:
    tasks = plan([facts(sizes)], 2000, max_records=most)
    wanted: list[int] = []
    for task in tasks:
        kept = [offset for piece in task for offset in offsets_of(sizes, piece)]
        assert 0 < len(kept) <= most
        assert all(offsets_of(sizes, piece) for piece in task)
        wanted += kept
    assert wanted == list(range(10 * sum(map(len, sizes))))


def offsets_of(sizes: list[list[int]], piece: Piece) -> list[int]:
    offsets = [offset for span in spans_of(sizes, piece) for offset in range(span.first_offset, span.next_offset)]
    return [offset for offset in offsets if piece.slice.start_offset <= offset < piece.slice.end_offset]


def ranges_of(spans: tuple[Span, ...], most: int, target: int = 1000) -> list[tuple[int, int, int, int]]:
    """Bytes and offsets of each piece of one segment."""
    segment = SegmentFacts(path="0.log", base_offset=0, spans=spans, is_last=True)
    tasks = plan(
        [PartitionFacts(topic="t", partition=0, segments=(segment,), start_offset=0)], target, max_records=most
    )
    slices = [piece.slice for piece in all_pieces(tasks)]
    return [(each.start, each.end, each.start_offset, each.end_offset) for each in slices]


@pytest.mark.parametrize("gap", [10**6, 2**31 - 1000, 2**62])
def test_offsets_that_are_missing_make_no_tasks(gap: int) -> None:
    """Compaction leaves gaps of any size, and every range costs a task."""
    spans = (span(0, 100, 0, 10), span(100, 200, 10, 10), span(200, 300, gap, gap + 10))
    assert ranges_of(spans, 4) == [
        (0, 100, 0, 4), (0, 100, 4, 8), (0, 300, 8, gap + 2), (200, 300, gap + 2, gap + 6), (200, 300, gap + 6, NO_END)
    ]  # fmt: skip


@pytest.mark.parametrize("claimed", [10**6, 2**62])
def test_no_cut_is_made_where_offsets_do_not_increase(claimed: int) -> None:
    """Rows behind it would be below the first offset that the next range wants."""
    spans = (span(0, 100, 0, 10), span(100, 200, claimed, claimed + 10), span(200, 300, 20, 30))
    assert ranges_of(spans, 4) == [(0, 100, 0, 4), (0, 100, 4, 8), (0, 300, 8, NO_END)]


def test_a_batch_that_claims_more_offsets_than_it_may_have_records_makes_few_tasks() -> None:
    spans = (span(0, 1 << 15, 0, 2**31), span(1 << 15, (1 << 15) + 100, 2**31, 2**31 + 10))
    *some, last = ranges_of(spans, 2**18, 1 << 20)
    assert len(some) == 4
    assert [end_offset for *_, end_offset in some] == [start_offset for *_, start_offset, _ in [*some[1:], last]]
    assert (last[1], last[3]) == ((1 << 15) + 100, NO_END)


def test_what_a_damaged_message_claims_makes_few_tasks() -> None:
    """A compressed message of magic 1 does not say how many are in it: a raised offset claims all below it."""
    spans = (span(0, 34, 20, 21), span(34, 137, 21, 1_001_023), span(137, 174, 1_001_023, 1_001_023))
    (segment,) = [SegmentFacts(path="/x", base_offset=0, spans=spans, is_last=True)]
    tasks = plan([PartitionFacts(topic="t", partition=0, segments=(segment,), start_offset=0)], 1 << 20, max_records=3)
    assert len(tasks) < 2000


def test_small_partitions_share_tasks_up_to_a_most_of_records_too() -> None:
    """Ten thousand partitions of ten records, and at most 50,000 records for a task, are two tasks."""
    partitions = [facts([[1000]])] * 10_000
    tasks = plan(partitions, 100_000_000, max_records=50_000)
    assert [len(task) for task in tasks] == [5_000, 5_000]
    assert len(plan(partitions, 1_000_000, max_records=50_000)) == 8, "a task's bytes count too"


@pytest.mark.parametrize("claimed", [span(100, 200, 500, 510), span(100, 200, -90, -80), span(100, 200, 2**62, 2**62)])
def test_a_span_is_not_left_out_for_what_its_header_claims(claimed: Span) -> None:
    """A damaged header may claim any offset: left out unread, its damage would be left out too."""
    segment = SegmentFacts(
        path="0.log", base_offset=0, spans=(span(0, 100, 20, 30), claimed, span(200, 300, 40, 50)), is_last=True
    )
    (task,) = plan([PartitionFacts(topic="t", partition=0, segments=(segment,), start_offset=20, end_offset=45)], 1000)
    assert (task[0].slice.start, task[0].slice.end) in ((0, 300), (0, 200))


def test_a_span_of_unknown_offsets_is_read_and_offsets_of_an_overlapping_segment_are_not_read_twice() -> None:
    damaged = SegmentFacts(
        path="0.log", base_offset=0, spans=(span(0, 100, 0, 10), span(100, 200, 10, 10)), is_last=False
    )
    overlapping = SegmentFacts(path="1.log", base_offset=5, spans=(span(0, 100, 5, 15),), is_last=True)
    pieces = all_pieces(
        plan([PartitionFacts(topic="t", partition=0, segments=(damaged, overlapping), start_offset=0)], 10_000)
    )
    assert [(piece.slice.path, piece.slice.end, piece.slice.start_offset) for piece in pieces] == [
        ("0.log", 200, 0),
        ("1.log", 100, 10),
    ]


def test_a_piece_knows_only_the_aborted_transactions_that_reach_into_it() -> None:
    aborted = (AbortedTransaction(0, 1, 0, 4, 5), AbortedTransaction(0, 1, 15, 25, 26))
    pieces = all_pieces(plan([facts([[1000], [1000], [1000]], aborted=aborted)], 1000))
    assert [piece.aborted for piece in pieces] == [aborted[:1], aborted[1:], aborted[1:]]
    assert [piece.aborted for piece in all_pieces(plan([facts([[1000]])], 1000))] == [None]


def test_the_target_is_between_what_a_task_costs_and_what_it_should_hold() -> None:
    mib = 1 << 20
    assert target_bytes(1 << 40, largest=64 * mib, min_partitions=None, cores=2) == 64 * mib
    assert 128 * target_bytes(1 << 33, largest=65 * mib, min_partitions=None, cores=2) == 1 << 33, "127 would be odd"
    assert target_bytes(100 * mib, largest=64 * mib, min_partitions=None, cores=2) == 25 * mib
    assert target_bytes(1000, largest=64 * mib, min_partitions=None, cores=2) == 4 * mib
    assert target_bytes(1000, largest=64 * mib, min_partitions=10, cores=2) == 100
    assert target_bytes(0, largest=64 * mib, min_partitions=3, cores=2) == 1


def planned(case_id: str, **given: str) -> list[tuple[Piece, ...]]:
    paths = [str(path) for path in brokers(case_id)]
    return plan_read(parse_options({"path": paths[0], **given}))


def test_segments_are_split_inside_and_minimal_partitions_are_reached() -> None:
    (whole,) = planned("4.1.1/segments")
    small = planned("4.1.1/segments", maxPartitionBytes="3000")
    assert sum(piece.slice.size for piece in whole) == sum(piece.slice.size for task in small for piece in task)
    assert any(piece.slice.start > 0 for task in small for piece in task)
    assert len(planned("4.1.1/segments", minPartitions="12")) >= 12


def topic_of(case_id: str) -> str:
    found = open_all(*brokers(case_id)).readable()
    return next(each.topic for each in found if each.topic and not each.topic.startswith("__"))


def test_topics_are_selected_by_name_pattern_and_assignment() -> None:
    topic = topic_of("4.1.1/codecs")
    for chosen in ({"subscribe": topic}, {"subscribePattern": topic[:-1] + "."}, {"assign": f'{{"{topic}":[0]}}'}):
        tasks = planned("4.1.1/codecs", **chosen)
        topics = {piece.topic for task in tasks for piece in task}
        assert topic in topics
        assert len(topics) < 10
    for wrong in ({"subscribe": "no-such-topic"}, {"assign": f'{{"{topic}":[77]}}'}):
        with pytest.raises(UsageError, match="is not below"):
            planned("4.1.1/codecs", **wrong)
    assert planned("4.1.1/codecs", subscribePattern="no-such-topic") == []


def test_offsets_by_partition_name_all_partitions_and_no_other() -> None:
    topic = topic_of("4.1.1/codecs")
    given = {"assign": f'{{"{topic}":[0]}}'}
    (task,) = planned("4.1.1/codecs", **given, startingOffsets=f'{{"{topic}":{{"0":3}}}}')
    assert task[0].slice.start_offset == 3
    for wrong in (f'{{"{topic}":{{"0":3,"1":3}}}}', '{"other":{"0":3}}', f'{{"{topic}":{{}}}}'):
        with pytest.raises(UsageError, match="must name all partitions"):
            planned("4.1.1/codecs", **given, startingOffsets=wrong)


def test_offsets_that_are_not_there_are_lost_data() -> None:
    topic = topic_of("4.1.1/codecs")
    given = {"assign": f'{{"{topic}":[0]}}', "startingOffsets": f'{{"{topic}":{{"0":99999}}}}'}
    with pytest.raises(UsageError, match="failOnDataLoss"):
        planned("4.1.1/codecs", **given)
    assert planned("4.1.1/codecs", **given, failOnDataLoss="false") == []


def test_times_behind_all_records_are_refused_or_mean_the_end() -> None:
    given = {"subscribe": topic_of("4.1.1/codecs"), "startingTimestamp": "9999999999999"}
    with pytest.raises(UsageError, match="startingOffsetsByTimestampStrategy"):
        planned("4.1.1/codecs", **given)
    assert planned("4.1.1/codecs", **given, startingOffsetsByTimestampStrategy="latest") == []


def test_a_partition_in_two_directories_is_refused_with_both_paths_or_chosen() -> None:
    one, other, *_ = paths = [str(path) for path in brokers("1.1.1/zkhist")]
    several = {"path": str(brokers("1.1.1/zkhist")[0].parent)}
    with pytest.raises(UsageError) as raised:
        plan_read(parse_options(several))
    assert one in str(raised.value)
    assert other in str(raised.value)
    assert "replica" in str(raised.value)
    for choice in ("longest", one):
        keys = [
            (piece.topic, piece.partition)
            for task in plan_read(parse_options(several | {"replica": choice}))
            for piece in task
        ]
        assert keys
    assert len(paths) >= 2


def test_paths_may_be_globs_and_file_uris() -> None:
    (broker,) = brokers("4.1.1/codecs")
    assert expand_paths([f"{broker.parent}/brok*-?"]) == [str(broker)]
    assert expand_paths([f"file://{broker}"]) == expand_paths([f"file:{broker}"]) == [str(broker)]
    for wrong, words in (
        ("nowhere://bucket/x", "nowhere: is not a scheme"),
        ("s3://logs[12]/x", "s3: the URI has a malformed host or bucket"),
        ("file://[x", "file: the URI has a malformed host or bucket"),
        ("/no/such", "does not exist"),
        ("/no/*x", "nothing"),
    ):
        with pytest.raises(UsageError, match=words):
            expand_paths([wrong])


def test_the_size_of_tasks_follows_the_range_that_is_asked_for(tmp_path: Path) -> None:
    with kafkalog.Log.open(
        tmp_path / "t-0", kafkalog.LogConfig(segment_bytes=2_000_000, index_interval_bytes=4096)
    ) as log:
        for _ in range(1000):
            log.append([b"x" * 20_000])
    whole = {"path": str(tmp_path), "maxPartitionBytes": "1000000000", "minPartitions": "4"}
    part = whole | {"startingOffsets": '{"t":{"0":900}}'}
    for options, least, most in ((whole, 4, 8), (part, 4, 8)):
        tasks = plan_read(parse_options(options))
        assert least <= len(tasks) <= most
        sizes = [sum(piece.slice.size for piece in task) for task in tasks]
        assert max(sizes) <= 2 * sum(sizes) / len(sizes)


def test_what_a_query_should_know_is_said_to_warnings_and_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="kafkalog"), pytest.warns(RuntimeWarning, match="one sentence"):
        tell("one sentence")
    assert [(record.name, record.message) for record in caplog.records] == [("kafkalog.spark", "one sentence")]


def test_a_task_says_what_it_reads(tmp_path: Path) -> None:
    """What docs/spark.md gives in place of Spark's `explain()`, which has no room for it."""
    with kafkalog.Log.open(tmp_path / "orders-3", kafkalog.LogConfig()) as log:
        log.append([b"a", b"b", b"c"])
    source = KafkaLogSource({"path": str(tmp_path), "endingOffsets": '{"orders":{"3":2}}'})
    (task,) = source.reader(source.schema()).partitions()
    (file,) = (tmp_path / "orders-3").glob("*.log")
    assert str(task) == f"orders-3: offsets from 0 up to 2 in bytes 0 to {file.stat().st_size} of {file}"


@pytest.mark.parametrize(("start", "is_beyond"), [(3, False), (5, False), (6, True), (900, True)])
def test_a_log_start_above_the_log_end_is_told_as_to_other_readers(start: int, is_beyond: bool, tmp_path: Path) -> None:
    """A broker deletes all of such a log when it starts, and a consumer reads nothing."""
    with kafkalog.Log.open(tmp_path / "orders-0") as log:
        log.append([b"x"] * 5)
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {start}\n")
    strict = parse_options({"path": str(tmp_path)})
    if not is_beyond:
        assert [record.offset for record in kafkalog.open(tmp_path)["orders", 0].records()] == list(range(start, 5))
        assert all(piece.slice.start_offset == start for piece in all_pieces(plan_read(strict)))
        return
    with pytest.raises(FormatError) as python:
        list(kafkalog.open(tmp_path)["orders", 0].records())
    with pytest.raises(FormatError, match=f"the log start offset {start} lies above the log end offset 5") as planned:
        plan_read(strict)
    assert str(planned.value) == str(python.value)
    with pytest.warns(RuntimeWarning, match="a consumer reads nothing"):
        assert all_pieces(plan_read(parse_options({"path": str(tmp_path), "mode": "DROPMALFORMED"}))) == []
