"""Names of directories and files: what they are, and what the broker would not take."""

from __future__ import annotations

import pytest

from kafkalog.codec.names import (
    DirectoryState,
    FileKind,
    PartitionName,
    SegmentFileName,
    parse_java_long,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)

HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("orders-0", PartitionName("orders", 0)),
        ("a-b-12", PartitionName("a-b", 12)),
        ("a-1-2", PartitionName("a-1", 2)),
        ("a.b_c-2147483647", PartitionName("a.b_c", 2147483647)),
        ("t-00", PartitionName("t", 0)),
        ("t-+1", PartitionName("t", 1)),
        ("t--1", PartitionName("t-", 1)),
        (".hidden-0", PartitionName(".hidden", 0)),
        ("a b-0", PartitionName("a b", 0)),
        (f"orders-3.{HEX}-delete", PartitionName("orders", 3, DirectoryState.DELETE)),
        (f"orders-3.{HEX}-future", PartitionName("orders", 3, DirectoryState.FUTURE)),
        (f"orders-3.{HEX}-stray", PartitionName("orders", 3, DirectoryState.STRAY)),
        ("t-1.xyz-delete", PartitionName("t", 1, DirectoryState.DELETE)),
        (f"a.b-c-3.{HEX}-delete", PartitionName("a.b-c", 3, DirectoryState.DELETE)),
        ("__cluster_metadata-0", PartitionName("__cluster_metadata", 0)),
        ("t-٣", PartitionName("t", 3)),
        ("t-०१２", PartitionName("t", 12)),
        ("t-" + "0" * 80 + "5", PartitionName("t", 5)),
        ("t-1.x\u00a0y-delete", PartitionName("t", 1, DirectoryState.DELETE)),
    ],
)
def test_partition_directories(name: str, wanted: PartitionName) -> None:
    assert parse_partition_directory(name) == wanted


@pytest.mark.parametrize(
    "name",
    ["", "-", "orders", "-0", "orders-", "orders-x", "orders-2147483648", "lost+found", "backup", "orders-0-delete",
     "orders-0.-delete", "a b-0.x-delete", "orders-0 ", "orders-1.5", "remote-log-index-cache", "t-𝟓", "t-²", "t-①"],
)  # fmt: skip
def test_directories_that_stop_a_broker(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize(
    ("base", "wanted"),
    [(-5, "-00000000000000000005.log"), (-(2**63), "-09223372036854775808.log"), (0, "00000000000000000000.log")],
)
def test_a_sign_is_not_one_of_the_digits(base: int, wanted: str) -> None:
    assert segment_file(base, FileKind.LOG) == wanted
    assert parse_segment_file(wanted) == SegmentFileName(base, FileKind.LOG)


@pytest.mark.parametrize("kind", [kind for kind in FileKind if kind is not FileKind.KRAFT_SNAPSHOT])
@pytest.mark.parametrize("base", [0, 42, 2**63 - 1])
def test_segment_files(base: int, kind: FileKind) -> None:
    name = segment_file(base, kind)
    assert name.partition(".")[0] == str(base).rjust(20, "0")
    assert parse_segment_file(name) == SegmentFileName(base, kind)
    for pending in (".deleted", ".cleaned", ".swap"):
        assert parse_segment_file(name + pending) == SegmentFileName(base, kind, pending)


def test_the_largest_base_offset() -> None:
    assert segment_file(2**63 - 1, FileKind.LOG) == "09223372036854775807.log"


@pytest.mark.parametrize(
    ("name", "base"), [("0.log", 0), ("+5.log", 5), ("-5.log", -5), ("7.x.log", 7), ("99.log", 99)]
)
def test_names_that_a_broker_takes_too(name: str, base: int) -> None:
    assert parse_segment_file(name) == SegmentFileName(base, FileKind.LOG)


@pytest.mark.parametrize(
    "name",
    ["", ".log", "backup.log", "x.snapshot", "0x10.log", "1e3.log", " 7.log", "9223372036854775808.log",
     "5.log.corrupt", "5.txt", "5", "leader-epoch-checkpoint", "5-1.checkpoint", "backup.log.swap", "²5.log"],
)  # fmt: skip
def test_names_of_no_segment(name: str) -> None:
    assert parse_segment_file(name) is None


@pytest.mark.parametrize(
    ("text", "bits", "value"),
    [("0", 64, 0), ("-0", 64, 0), ("+7", 64, 7), ("007", 64, 7), ("9223372036854775807", 64, 2**63 - 1),
     ("9223372036854775808", 64, None), ("-9223372036854775808", 64, -(2**63)), ("2147483648", 32, None),
     ("", 64, None), ("-", 64, None), ("1_0", 64, None), ("1 ", 64, None), ("1\n", 64, None), ("٣", 64, 3),
     ("𝟓", 64, None), ("-5٠", 64, -50), ("0" * 10_000 + "7", 64, 7),
     ("1" * 10_000, 64, None)],
)  # fmt: skip
def test_numbers_as_java_parses_them(text: str, bits: int, value: int | None) -> None:
    assert parse_java_long(text, bits) == value
