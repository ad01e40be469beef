"""Every finding code: those of the codec are tripped here, for the others stands which tests trip them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkalog.codec import (
    DEFAULT_LIMITS,
    Finding,
    FindingCode,
    FormatError,
    Severity,
    Unread,
    decode_batch,
    scan,
)
from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.files.index_files import decode_producer_snapshot
from kafkalog.codec.files.text import decode_meta_properties, decode_offset_checkpoint, decode_partition_metadata
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.codec.rules.batches import Continuity
from testkit.made.batches import batch, fix_crc, message, patch, record, records_batch, simple, sized, varint

TESTS = Path(__file__).resolve().parents[2]


def whole(data: bytes, base_offset: int | None = None) -> set[FindingCode]:
    """What scanning and decoding find."""
    result = scan(data, base_offset=base_offset)
    decoded = [decode_batch(found).finding for found in result.batches]
    return {finding.code for finding in (*result.findings, *decoded) if finding is not None}


def parsing(decode: Callable[[bytes], object], data: bytes) -> set[FindingCode]:
    with pytest.raises(FormatError) as caught:
        decode(data)
    return {FindingCode(caught.value.code or "")}


def limited() -> set[FindingCode]:
    return {finding.code for finding in scan(simple(), limits=replace(DEFAULT_LIMITS, batch_bytes=65)).findings}


def overlap() -> set[FindingCode]:
    (found,) = scan(simple(5)).batches
    return {finding.code for finding in Continuity(0, next_segment=3).check(found)}


def body(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return batch(varint(len(content)) + content, 1)


K, V, HEAD = sized(b"k"), sized(b"v"), bytes(3)

TRIPPED: dict[FindingCode, Callable[[], set[FindingCode]]] = {
    FindingCode.TORN_TAIL: lambda: whole(simple()[:-1]),
    FindingCode.ZERO_TAIL: lambda: whole(simple() + bytes(100)),
    FindingCode.BATCH_SIZE_INVALID: lambda: whole(patch(simple(), 8, b"\xff\xff\xff\xff")),
    FindingCode.CRC_MISMATCH: lambda: whole(patch(simple(), 17, bytes(4))),
    FindingCode.LIMIT_EXCEEDED: limited,
    FindingCode.MAGIC_UNKNOWN: lambda: whole(patch(simple(), 16, b"\x07")),
    FindingCode.CODEC_UNKNOWN: lambda: whole(batch(record(), 1, attributes=6)),
    FindingCode.RECORDS_COUNT_INVALID: lambda: whole(batch(record(), -5)),
    FindingCode.LAST_OFFSET_DELTA_INVALID: lambda: whole(batch(record(), 1, last_offset_delta=-2)),
    FindingCode.OFFSET_BELOW_SEGMENT: lambda: whole(simple(), 5),
    FindingCode.OFFSET_ABOVE_SEGMENT: lambda: whole(simple(base_offset=2**40), 5),
    FindingCode.OFFSET_NOT_INCREASING: lambda: whole(simple() * 2),
    FindingCode.OFFSET_DISPLACED: lambda: whole(simple(5) + simple(5, 100) + simple(5, 10), 0),
    FindingCode.OFFSET_GAP: lambda: whole(simple() + simple(base_offset=8)),
    FindingCode.SEGMENT_OVERLAP: overlap,
    FindingCode.LEADER_EPOCH_DECREASES: lambda: whole(simple(1, 0, 4) + simple(1, 1, 3)),
    FindingCode.DECOMPRESSION_FAILED: lambda: whole(batch(b"no stream", 1, attributes=1)),
    FindingCode.RECORD_TRUNCATED: lambda: whole(batch(record()[:-1], 1)),
    FindingCode.RECORD_LENGTH_MISMATCH: lambda: whole(body(HEAD, K, V, varint(0), b"more")),
    FindingCode.VARINT_TOO_LONG: lambda: whole(batch(b"\x80" * 6, 1)),
    FindingCode.HEADER_COUNT_INVALID: lambda: whole(body(HEAD, K, V, varint(-1))),
    FindingCode.HEADER_KEY_INVALID: lambda: whole(body(HEAD, K, V, varint(1), varint(-1), varint(-1))),
    FindingCode.RECORDS_TRAILING_BYTES: lambda: whole(batch(record() + b"x", 1)),
    FindingCode.CONTROL_RECORD_INVALID: lambda: parsing(parse_control_key, b"\0"),
    FindingCode.MESSAGE_INVALID: lambda: whole(message(body=b"\0\0\0\x63xxxx")),
    FindingCode.SNAPSHOT_INVALID: lambda: parsing(decode_producer_snapshot, b"\0\x09" + bytes(8)),
    FindingCode.CHECKPOINT_INVALID: lambda: parsing(decode_offset_checkpoint, b"7\n"),
    FindingCode.PARTITION_METADATA_INVALID: lambda: parsing(decode_partition_metadata, b"7\n"),
    FindingCode.META_PROPERTIES_INVALID: lambda: parsing(decode_meta_properties, b"version=7\n"),
}

# What examines whole directories has its own tests.
ELSEWHERE = {
    FindingCode.INDEX_MISSING: "recovery/checks/test_verify.py",
    FindingCode.INDEX_SIZE_INVALID: "recovery/checks/test_verify.py",
    FindingCode.INDEX_NOT_INCREASING: "recovery/checks/test_verify.py",
    FindingCode.INDEX_ENTRY_MISMATCH: "recovery/checks/test_verify.py",
    FindingCode.INDEX_PREALLOCATED: "recovery/checks/test_verify.py",
    FindingCode.TRANSACTION_UNDECIDED: "log/reading/test_reading_agreement.py",
    FindingCode.TXN_INDEX_MISMATCH: "recovery/checks/test_verify.py",
    FindingCode.SNAPSHOT_MISMATCH: "log/storage/producers/test_snapshot_check.py",
    FindingCode.LEADER_EPOCH_MISMATCH: "recovery/checks/test_verify.py",
    FindingCode.MAX_TIMESTAMP_MISMATCH: "recovery/checks/test_verify.py",
    FindingCode.SEGMENT_MISSING: "recovery/checks/test_missing_segments.py",
    FindingCode.FOREIGN_FILE: "recovery/checks/test_verify.py",
    FindingCode.TEMPORARY_FILE: "recovery/checks/test_verify.py",
    FindingCode.PARTITION_MISSING: "recovery/checks/test_missing_partitions.py",
    FindingCode.LOG_DIRECTORY_MISSING: "recovery/checks/test_lost_directories.py",
    FindingCode.BATCHES_OUTSIDE: "recovery/checks/test_lost_and_found.py",
    FindingCode.SEGMENT_MISNAMED: "recovery/checks/test_lost_and_found.py",
    FindingCode.LOG_END_BEYOND_CHECKPOINT: "recovery/checks/test_checks_too_high_end.py",
    FindingCode.LOG_DIRECTORY_READ_ONLY: "recovery/checks/test_lost_directories.py",
    FindingCode.OWNER_MISMATCH: "recovery/facts/test_owners.py",
    FindingCode.DUPLICATE_PARTITION: "recovery/checks/test_verify.py",
    FindingCode.IDENTITY_MISMATCH: "log/directories/test_identities.py",
    FindingCode.NOT_REPLICAS: "copies/test_compare.py",
    FindingCode.OFFSETS_BELOW_LOG_START: "recovery/checks/test_verify.py",
    FindingCode.LOG_END_BELOW_LOG_START: "recovery/checks/test_verify.py",
    FindingCode.LOG_END_BELOW_HIGH_WATERMARK: "recovery/checks/test_verify.py",
    FindingCode.DELETED_BEYOND_END: "recovery/decide/test_deleted_data.py",
    FindingCode.LOG_END_BELOW_OFFSET: "recovery/checks/test_verify.py",
    FindingCode.UNREADABLE: "cli/test_unreadable_files.py",
    FindingCode.BROKER_REFUSES: "recovery/checks/test_verify.py",
    FindingCode.START_LOSES: "recovery/broker/test_node_start.py",
    FindingCode.RUN_UNFINISHED: "recovery/decide/test_refusals_and_quarantine.py",
    FindingCode.FOREIGN_DIRECTORY: "recovery/checks/test_verify.py",
    FindingCode.TYPED_RECORD_INVALID: "cluster/records/test_records_typed.py",
    FindingCode.TYPED_RECORD_AMBIGUOUS: "cluster/records/test_records_typed.py",
    FindingCode.TYPED_RECORD_TRAILING_BYTES: "cluster/records/test_records_typed.py",
    FindingCode.RECORD_TYPE_UNKNOWN: "cluster/records/test_records_typed.py",
    FindingCode.RECORD_VERSION_UNKNOWN: "cluster/records/test_records_typed.py",
    FindingCode.TRANSACTION_HANGING: "cluster/test_coordinator_state.py",
    FindingCode.GROUP_MISPLACED: "cluster/test_coordinator_state.py",
    FindingCode.SHARE_STATE_MISSING: "cluster/groups/test_share_lost.py",
    FindingCode.GROUP_KINDS_MIXED: "cluster/groups/test_group_types.py",
    FindingCode.PARTITION_OWNED_TWICE: "cluster/test_contradictions.py",
    FindingCode.MOVE_UNFINISHED: "recovery/checks/test_unfinished_moves.py",
    FindingCode.MOMENTS_DIFFER: "recovery/checks/test_moments.py",
    FindingCode.PAST_REMOVED: "cluster/questions/test_moment.py",
    FindingCode.OFFSET_BEYOND_LOG_END: "cluster/questions/test_moment.py",
    FindingCode.METADATA_GAP: "cluster/kraft/test_metadata_image.py",
    FindingCode.METADATA_INCONSISTENT: "cluster/questions/test_elections.py",
    FindingCode.REMOTE_EVENT_INVALID: "tiers/test_metadata.py",
    FindingCode.TIER_GAP: "recovery/test_run_tiered.py",
    **dict.fromkeys(
        (
            FindingCode.REMOTE_OBJECT_MISSING,
            FindingCode.REMOTE_OBJECT_LEAKED,
            FindingCode.REMOTE_OBJECT_DAMAGED,
            FindingCode.REMOTE_INDEX_DAMAGED,
            FindingCode.REMOTE_COPY_STUCK,
            FindingCode.REMOTE_DELETE_STUCK,
            FindingCode.REMOTE_COPY_BEHIND,
            FindingCode.LOCAL_RETENTION_PASSED,
            FindingCode.REMOTE_LINEAGES_OVERLAP,
        ),
        "inspect/test_remote.py",
    ),
    **dict.fromkeys(
        (
            FindingCode.SCHEMA_RECORD_INVALID,
            FindingCode.SCHEMA_KEY_FORMS,
            FindingCode.SCHEMA_WOULD_RETURN,
            FindingCode.SCHEMA_ID_CONFLICT,
            FindingCode.SCHEMA_REFERENCE_MISSING,
            FindingCode.SCHEMA_ID_UNKNOWN,
        ),
        "values/test_registry.py",
    ),
    FindingCode.VALUE_UNDECODABLE: "cli/dump/test_dump_values.py",
    FindingCode.HEADER_KEY_NOT_TEXT: "log/reading/test_lossy.py",
    FindingCode.TIMESTAMP_OUT_OF_RANGE: "log/reading/test_lossy.py",
    FindingCode.TIMESTAMP_UNIT: "log/reading/test_lossy.py",
    FindingCode.ZK_LOG_TORN: "cluster/zookeeper/test_zookeeper.py",
    FindingCode.ZK_LOG_CORRUPT: "cluster/zookeeper/test_zookeeper.py",
    FindingCode.ZK_CHECKSUM_MISMATCH: "cluster/zookeeper/test_zookeeper.py",
    FindingCode.ZK_DIGEST_MISMATCH: "cluster/zookeeper/test_zookeeper.py",
    FindingCode.ZK_GAP: "cluster/zookeeper/test_zookeeper.py",
    FindingCode.ZK_SNAPSHOT_INVALID: "cluster/zookeeper/test_zookeeper.py",
    FindingCode.ZK_NODE_INVALID: "cluster/zookeeper/test_old_consumers.py",
    FindingCode.ZK_PATH_MISSING: "cluster/zookeeper/test_zookeeper_nodes.py",
}


def test_every_code_has_its_place() -> None:
    assert TRIPPED.keys() | ELSEWHERE.keys() == set(FindingCode)
    assert len(TRIPPED) + len(ELSEWHERE) == len(FindingCode)


@pytest.mark.parametrize("code", TRIPPED)
def test_codes_of_the_codec(code: FindingCode) -> None:
    assert code in TRIPPED[code]()


@pytest.mark.parametrize("code", ELSEWHERE)
def test_codes_of_other_rooms_are_named_in_their_tests(code: FindingCode) -> None:
    text = (TESTS / ELSEWHERE[code]).read_text(encoding="utf-8")
    assert f"FindingCode.{code.name}" in text or f'"{code}"' in text


def test_codes_are_their_names() -> None:
    assert [code.value for code in FindingCode] == [code.name.lower() for code in FindingCode]


def test_sound_bytes_have_no_finding() -> None:
    assert whole(records_batch(record(0), record(1)) + fix_crc(message(2)), 0) == set()


@pytest.mark.parametrize(
    ("unread", "words"),
    [
        (Unread(5, 8, 0, 60_000), "offsets 5 to 8, between 1970-01-01 00:00:00Z and 1970-01-01 00:01:00Z"),
        (Unread(5, 5, None, 60_000), "offset 5, before 1970-01-01 00:01:00Z"),
        (Unread(5, None, 60_000), "from offset 5 on, after 1970-01-01 00:01:00Z"),
        (Unread(5, None), "from offset 5 on"),
        (Unread(5, 6, 2**62, None), "offsets 5 to 6, after 4611686018427387904"),
    ],
)
def test_what_damage_makes_unreadable_is_said_in_words_and_as_json(unread: Unread, words: str) -> None:
    """The offset that a damaged header claims gives way to what the sound batches around it prove."""
    finding = Finding(FindingCode.CRC_MISMATCH, Severity.ERROR, 61, 7, "it differs", unread=unread)
    assert str(finding) == f"error: crc_mismatch (byte 61, {words}): it differs"
    assert plain(shaped(finding, FindingJson))["unread"] == {
        "first_offset": unread.first_offset,
        "last_offset": unread.last_offset,
        "newest_before": unread.newest_before,
        "oldest_after": unread.oldest_after,
    }


def test_a_finding_in_words_and_as_json() -> None:
    finding = Finding(FindingCode.CRC_MISMATCH, Severity.ERROR, 61, 7, "it differs").in_file("a.log")
    assert str(finding) == "error: crc_mismatch (a.log, byte 61, offset 7): it differs"
    assert plain(shaped(finding, FindingJson)) == {
        "code": "crc_mismatch",
        "severity": "error",
        "file": "a.log",
        "position": 61,
        "offset": 7,
        "detail": "it differs",
    }
    inside = replace(finding, last_offset=9)
    assert str(inside) == "error: crc_mismatch (a.log, byte 61, offsets 7 to 9): it differs"
    assert shaped(inside, FindingJson).last_offset == 9
    assert str(Finding(FindingCode.FOREIGN_FILE, Severity.INFO)) == "info: foreign_file: "


def test_a_span_of_times_begins_with_the_earlier_one() -> None:
    """Producers set the times of their records, so those before damage may be later than those after it."""
    earlier, later = 1_600_000_000_000, 1_600_000_060_000
    said = "between 2020-09-13 12:26:40Z and 2020-09-13 12:27:40Z"
    assert Unread(3, 5, earlier, later).parts[1] == said
    assert Unread(3, 5, later, earlier).parts[1] == said
