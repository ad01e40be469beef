"""Options: names, precedence and refusals of Spark's Kafka source."""

from __future__ import annotations

import pickle

import pytest

from kafkalog.codec.common.errors import UsageError
from kafkalog.spark.bounds import EARLIEST, LATEST
from kafkalog.spark.options import Mode, parse_options

BASE = {"path": "/data"}


def test_defaults_are_those_of_a_batch_query_on_kafka() -> None:
    options = parse_options(BASE)
    assert options.paths == ("/data",)
    assert (options.start.offset, options.end.offset) == (EARLIEST, LATEST)
    assert (options.fail_on_data_loss, options.include_headers) == (True, False)
    assert (options.mode, options.isolation_level) == (Mode.FAILFAST, "read_uncommitted")
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_and_words_are_known_in_any_case() -> None:
    given = BASE | {"IncludeHEADERS": "TRUE", "Kafka.Isolation.Level": "READ_COMMITTED", "MODE": "permissive"}
    options = parse_options(given | {"startingoffsets": "Earliest"})
    assert options.include_headers
    assert options.isolation_level == "read_committed"
    assert options.mode is Mode.PERMISSIVE


def test_timestamp_comes_before_timestamps_by_partition_and_these_before_offsets() -> None:
    given = BASE | {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t":{"0":6}}',
        "startingOffsets": '{"t":{"0":7}}',
    }
    assert parse_options(given).start.timestamp_of(("t", 0)) == 5
    del given["startingTimestamp"]
    assert parse_options(given).start.timestamp_of(("t", 0)) == 6
    del given["startingOffsetsByTimestamp"]
    start = parse_options(given).start
    assert start.timestamp_of(("t", 0)) is None
    assert start.offset_of(("t", 0)) == 7


def test_several_paths_arrive_as_json() -> None:
    assert parse_options({"paths": '["/a,b", "/c d"]'}).paths == ("/a,b", "/c d")


REFUSED = [
    ({"startOffsets": "earliest"}, "startingOffsets"),
    ({"failondataloos": "true"}, "failOnDataLoss"),
    ({"zzz": "1"}, "there are path"),
    ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
    ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets cannot be latest for t-0"),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "offset -3"),
    ({"startingOffsets": "sometime"}, "startingOffsets"),
    ({"startingOffsets": '{"t":[0]}'}, "startingOffsets needs JSON"),
    ({"startingOffsets": '{"t":{"0":true}}'}, "startingOffsets needs JSON"),
    ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
    ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets cannot be earliest for t-0"),
    ({"startingTimestamp": "noon"}, "startingTimestamp"),
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "assign, subscribe"),
    ({"subscribe": "a,,b"}, "subscribe"),
    ({"subscribePattern": "("}, "subscribePattern"),
    ({"subscribePattern": "a{99999999999999999999}"}, "subscribePattern"),
    ({"assign": '{"a":0}'}, "assign needs JSON"),
    ({"assign": '{"a":"12"}'}, "assign needs JSON"),
    ({"assign": '{"a":[0.9]}'}, "assign needs JSON"),
    ({"assign": '{"a":{"0":5}}'}, "assign needs JSON"),
    ({"assign": "[0]"}, "assign needs JSON"),
    ({"assign": "[" * 200_000}, "assign is neither of its words nor JSON"),
    ({"minPartitions": "0"}, "minPartitions must be a positive number"),
    ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be a positive number"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
    ({"mode": "LENIENT"}, "mode is one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ({"kafka.isolation.level": "serializable"}, "kafka.isolation.level is one of"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy"),
    ({"paths": "/a"}, "JSON list"),
    ({"provider": "kafkalog"}, "CREATE TEMPORARY VIEW"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_refusals_name_the_option_as_it_is_documented(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options(BASE | given)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_a_path_the_way_for_sql_is_named() -> None:
    with pytest.raises(UsageError, match="CREATE TEMPORARY VIEW"):
        parse_options({})


def test_what_only_a_broker_or_a_stream_needs_is_accepted_and_told() -> None:
    given = {"kafka.bootstrap.servers": "a:9092", "groupIdPrefix": "x", "maxOffsetsPerTrigger": "5"}
    ignored = parse_options(BASE | given).ignored
    assert ignored == ("kafka.bootstrap.servers", "groupIdPrefix", "maxOffsetsPerTrigger")


@pytest.mark.parametrize("name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit",
                                  "interceptor.classes"])  # fmt: skip
def test_what_sparks_kafka_source_refuses_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"kafka.{name} is not supported"):
        parse_options(BASE | {f"kafka.{name}": "x"})
    assert parse_options(BASE | {"kafka.group.id": "x"}).ignored == ("kafka.group.id",)


@pytest.mark.parametrize("value", ["latest", "nonsense", '{"t":{"0":-1}}'])
def test_contents_are_the_cause_before_what_an_option_of_records_says(value: str) -> None:
    with pytest.raises(UsageError, match="startingOffsets is for records, and contents is batches"):
        parse_options(BASE | {"contents": "batches", "startingOffsets": value})
