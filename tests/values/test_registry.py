"""The registry that `_schemas` holds, and what is found in it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.layouts import open_tier
from kafkalog.values.export import import_calls, schema_records
from kafkalog.values.registry import SchemaDeletion, SchemaReference
from kafkalog.values.schema_log import SchemaLog
from kafkalog.values.sources import find_schemas
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.running.command import kafkalog as run


def key(kind: str, subject: str | None = None, **more: Any) -> bytes:
    fields = {"keytype": kind} | ({} if subject is None else {"subject": subject}) | more
    return json.dumps(fields, separators=(",", ":")).encode()


def schema_key(subject: str, version: int = 1, magic: int = 1) -> bytes:
    return key("SCHEMA", subject, version=version, magic=magic)


def schema_value(subject: str, id: int, text: str = '"string"', version: int = 1, **more: Any) -> bytes:
    return json.dumps(
        {"subject": subject, "version": version, "id": id, "schema": text, "deleted": False} | more
    ).encode()


def registry_of(*records: tuple[bytes | None, bytes | None]) -> kafkalog.SchemaRegistry:
    log = SchemaLog()
    for offset, (k, v) in enumerate(records):
        log.take(k, v, offset, 1000 + offset)
    return log.finish()


def codes(registry: kafkalog.SchemaRegistry) -> list[str]:
    return [str(each.code) for each in registry.findings]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


def test_every_schema_that_a_value_was_written_with_has_its_id_type_and_subject(recorded: Path) -> None:
    registry = kafkalog.read_schemas(recorded)
    seen = 0
    for line in expected_values():
        for part in ("key", "value"):
            wanted = line.get(f"{part}_schema")
            if wanted:
                found = registry.by_id(wanted["id"], line["topic"], part)
                assert found is not None
                assert {"id": found.id, "type": found.type, "subject": found.subject} == wanted
                seen += 1
    assert seen > 300


def test_deletions_settings_and_references_are_those_of_the_records(recorded: Path) -> None:
    registry = kafkalog.read_schemas(recorded)
    deleted = {(each.subject, each.version): each.deleted for each in registry.schemas.values() if each.deleted}
    soft, gone = SchemaDeletion.SOFT, SchemaDeletion.PERMANENT
    assert deleted == {
        ("evolving-onyx-value", 1): soft,
        ("ember.zephyr11.Gone", 1): soft,
        ("ember.zephyr11.Alpha", 1): gone,
        ("ember.zephyr11.Lost", 1): gone,
        ("imported-indigo", 1): gone,
    }
    assert registry.compatibility == {None: {"compatibilityLevel": "FULL"}}
    assert registry.modes == {"imported-indigo": "IMPORT"}
    assert registry.mode_of("imported-indigo") == "IMPORT"
    assert registry.mode_of("address-saffron") == "READWRITE"
    assert registry.compatibility_of("evolving-onyx-value") == "FULL"
    assert registry.schemas["address-saffron", 2].references == (
        SchemaReference("ember.zephyr11.Country", "ember.zephyr11.Country", 1),
    )
    latest = registry.latest("evolving-onyx-value")
    assert latest is not None
    assert latest.version == 3
    assert codes(registry) == []


def test_an_earlier_moment(recorded: Path) -> None:
    before = kafkalog.read_schemas(recorded, at_offset=42)
    assert not any(each.deleted for each in before.schemas.values())
    assert before.compatibility["evolving-onyx-value"]["compatibilityLevel"] == "NONE"
    assert kafkalog.read_schemas(recorded, as_of=1690000041999).schemas == before.schemas


def test_a_header_names_a_schema_by_its_guid(recorded: Path) -> None:
    registry = kafkalog.read_schemas(recorded)
    seen = 0
    for record in kafkalog.open(recorded)["mixed-amber", 0].records():
        for header in record.headers:
            if header.key == "__value_schema_id" and header.value is not None and len(header.value) == 17:
                seen += registry.by_guid(header.value[1:], "mixed-amber") is not None
    assert seen > 3


def test_a_key_in_two_forms_and_what_would_return() -> None:
    registry = registry_of(
        (schema_key("a"), schema_value("a", 1)),
        (b'{"magic": 1, "subject": "a", "version": 1, "keytype": "SCHEMA"}', None),
    )
    assert registry.schemas["a", 1].deleted is SchemaDeletion.PERMANENT
    assert [each.code for each in registry.findings] == [FindingCode.SCHEMA_KEY_FORMS, FindingCode.SCHEMA_WOULD_RETURN]


def test_a_soft_deletion_in_another_form_does_not_return() -> None:
    deleted = schema_value("a", 1, deleted=True)
    registry = registry_of((schema_key("a"), schema_value("a", 1)), (schema_key("a", magic=0), deleted))
    assert codes(registry) == ["schema_key_forms"]


def test_a_subject_whose_deletion_is_taken_back_by_a_tombstone_of_its_own_would_return() -> None:
    registry = registry_of(
        (schema_key("a"), schema_value("a", 1)),
        (key("DELETE_SUBJECT", "a", magic=0), b'{"subject":"a","version":1}'),
        (key("DELETE_SUBJECT", "a", magic=0), None),
    )
    assert codes(registry) == ["schema_would_return"]


@pytest.mark.parametrize(
    ("k", "v"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b"[]", b"{}"),
        (b'{"keytype":7}', b"{}"),
        (key("SCHEMA", "a"), schema_value("a", 1)),
        (schema_key("a", version=-1), schema_value("a", 1)),
        (schema_key("a"), schema_value("a", 2**40)),
        (schema_key("a"), b'{"id":1}'),
        (schema_key("a"), schema_value("a", 1, references=[7])),
        (schema_key("a"), b'{"id":' + b"9" * 10_000 + b"}"),
        (key("DELETE_SUBJECT", "a"), b"{}"),
        (key("MODE"), b'{"mode":7}'),
    ],
)
def test_a_record_that_no_registry_reads_is_a_finding_and_changes_nothing(k: bytes | None, v: bytes) -> None:
    registry = registry_of((schema_key("b"), schema_value("b", 5)), (k, v))
    assert [(each.code, each.offset) for each in registry.findings] == [(FindingCode.SCHEMA_RECORD_INVALID, 1)]
    assert list(registry.schemas) == [("b", 1)]


def test_an_id_with_two_schemas_and_a_reference_to_nothing() -> None:
    reference = [{"name": "x", "subject": "x", "version": 3}]
    registry = registry_of(
        (schema_key("a"), schema_value("a", 1)),
        (schema_key("b"), schema_value("b", 1, '"int"')),
        (schema_key(":.other:b"), schema_value(":.other:b", 1, '"long"')),
        (schema_key("c"), schema_value("c", 2, references=reference)),
    )
    assert codes(registry) == ["schema_id_conflict", "schema_reference_missing"]


def test_the_command_finds_ids_that_no_schema_has(recorded: Path) -> None:
    finished = run("schemas", recorded, "--check-values", "--json")
    assert finished.code == 1
    told = [line for line in finished.err.splitlines() if str(FindingCode.SCHEMA_ID_UNKNOWN) in line]
    wanted = set()
    for line in expected_values():
        for part in ("key", "value"):
            data = line.get(f"{part}_b64", "")
            if line.get(f"{part}_bad") and data.startswith("AA"):
                wanted.add(line["topic"])
    assert wanted
    assert all(any(topic in line for line in told) for topic in wanted if topic == "garbage-umber")
    last = finished.objects[-1]
    assert last["kind"] == "registry"
    assert last["schemas"] == len(finished.objects) - 1 - sum(each["kind"] == "setting" for each in finished.objects)


def test_the_command_shows_a_schema_and_refuses_what_is_not_there(recorded: Path) -> None:
    assert "ember.zephyr11.Country" in run("schemas", recorded, "--id", 160).out
    unknown = run("schemas", recorded, "--id", 5)
    assert unknown.code == 1
    assert "no schema has the id 5" in unknown.err
    assert run("schemas", recorded, "--subject", "address-safron").code == 1
    assert len(run("schemas", recorded, "--json", "--subject", "address-*").objects) == 2 + 2 + 1
    for option in ("--json", "--check-values"):
        assert run("schemas", recorded, "--export", "calls", option).code == 64


def test_a_folder_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "17.avsc").write_text('"string"')
    (tmp_path / "orders-value@18.proto").write_text('syntax = "proto3";')
    (tmp_path / "19.json").write_bytes(b"\xff")
    (tmp_path / "README.md").write_text("not a schema")
    registry = kafkalog.read_schemas(tmp_path)
    assert {(each.subject, each.version, each.id, each.type) for each in registry.schemas.values()} == {
        ("17", 1, 17, "AVRO"), ("orders-value", 1, 18, "PROTOBUF"),
    }  # fmt: skip
    assert codes(registry) == ["schema_record_invalid"]
    (tmp_path / "orders-value.avsc").write_text('"string"')
    again = kafkalog.read_schemas(tmp_path)
    assert again.schemas == registry.schemas
    (named,) = [each for each in again.findings if each.file == str(tmp_path / "orders-value.avsc")]
    assert "orders-value@17.avsc" in named.detail


@pytest.mark.parametrize("name", ["orders-value.avsc", "orders-value-17.avsc", "schema17.proto", "v1.json"])
def test_a_folder_whose_files_have_other_names_is_refused_with_the_pattern(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('"string"')
    sentence = f"such as {name}: ID.avsc, ID.proto or ID.json"
    with pytest.raises(UsageError, match=re.escape(sentence)):
        kafkalog.read_schemas(tmp_path)
    done = run("schemas", tmp_path)
    assert done.code == 64
    assert len(done.err.splitlines()) == 1
    assert sentence in done.err


def test_what_holds_no_registry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is an empty directory"):
        kafkalog.read_schemas(tmp_path)
    for line in (
        '{"a": 1}',
        '{"topic": "_schemas", "offset": Infinity, "key": "{}"}',
        '{"method": "PUT", "path": "/config", "body": [1]}',
        '{"method": "POST", "path": "/subjects/a/versions", "body": "x"}',
    ):
        (tmp_path / "x.jsonl").write_text(f"{line}\n")
        with pytest.raises(FormatError, match="line 1 is neither a call"):
            kafkalog.read_schemas(tmp_path / "x.jsonl")


def test_the_schemas_beside_a_partition_in_a_mount_are_found(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    both = BothTiers(str(recorded), open_tier(str(tmp_path / "remote"), layout="aiven"))
    names = sorted(each.name for each in recorded.iterdir())
    directory = next(name for name in names if name.endswith("-0") and "_" not in name)
    local = find_schemas([str(recorded / directory)])
    assert local.schemas
    assert find_schemas([f"{both.path}/{directory}"]).schemas == local.schemas


def damaged_records(directory: Path, count: int) -> None:
    """Whatever records say, a registry comes of them that can be listed, written out and read again."""
    originals = [(each.key, each.value) for each in kafkalog.open(directory)["_schemas", 0].records()]
    chance = random.Random(36)
    for _ in range(count // len(originals)):
        log = SchemaLog()
        for offset, (k, v) in enumerate(originals):
            log.take(_damaged(k, chance), _damaged(v, chance), offset, 1000 + offset)
        registry = log.finish()
        calls = [json.dumps(each) for each in import_calls(registry)]
        assert len(calls) >= 2
        for each in registry.schemas.values():
            assert registry.by_id(each.id) is not None
            assert len(each.computed_guid) == 32
        try:
            again = [json.dumps(each) for each in schema_records(log)]
        except UsageError:
            continue  # a key that is not UTF-8, but JSON in another encoding
        assert len(again) <= len(originals)


def _damaged(data: bytes | None, chance: random.Random) -> bytes | None:
    if data is None or chance.random() < 0.5:
        return data
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(changed) + 1)
        what = chance.choice((b"\\ud800", b"null", b"[", b"{", b'"', b"9" * 30, b"-1", b"true", b"\xff", b""))
        changed[place : place + chance.randrange(4)] = what
    return bytes(changed)


def test_a_part_of_the_search_over_damaged_records(recorded: Path) -> None:
    damaged_records(recorded, 5000)


@pytest.mark.sweep
def test_records_damaged_at_random(recorded: Path) -> None:
    damaged_records(recorded, 200_000)


def test_a_subject_that_is_no_text_is_given_back(tmp_path: Path) -> None:
    """A lone half of a pair, which JSON can write and UTF-8 cannot."""
    registry = registry_of((schema_key("\ud800/x"), schema_value("\ud800/x", 1)))
    calls = "".join(json.dumps(each) + "\n" for each in import_calls(registry))
    (tmp_path / "calls.jsonl").write_text(calls)
    assert kafkalog.read_schemas(tmp_path / "calls.jsonl").schemas.keys() == {("\ud800/x", 1)}
    assert run("schemas", tmp_path / "calls.jsonl").code == 0


def test_associations_and_contexts_are_kept_and_mean_nothing_for_schemas() -> None:
    from kafkalog.values.schema_log import SchemaLog

    log = SchemaLog()
    for offset, key in enumerate((
        b'{"keytype":"ASSOC","magic":0,"resourceName":"orders","subject":"orders-value"}',
        b'{"keytype":"ASSOC","magic":0,"resourceName":"others","subject":"orders-value"}',
        b'{"keytype":"CONTEXT","magic":0,"tenant":"default","context":".one"}',
        b'{"keytype":"CONTEXT","magic":0,"tenant":"default","context":".two"}',
    )):  # fmt: skip
        log.take(key, b"{}", offset, 0)
    assert log.finish().findings == []
    assert [each.offset for each in log.last_records()] == [0, 1, 2, 3]


def test_a_setting_without_a_level_is_given_back(tmp_path: Path) -> None:
    registry = kafkalog.SchemaRegistry()
    registry.compatibility["orders-value"] = {"normalize": True}
    registry.compatibility["users-value"] = {"compatibilityLevel": "FULL", "compatibilityGroup": "major"}
    calls = [json.dumps(each) + "\n" for each in import_calls(registry)]
    (tmp_path / "calls.jsonl").write_text("".join(calls))
    assert kafkalog.read_schemas(tmp_path / "calls.jsonl").compatibility == registry.compatibility
    other = '{"method": "PUT", "path": "/config", "body": {"compatibilityLevel": "FULL"}}\n'
    (tmp_path / "other.jsonl").write_text(other)
    with pytest.raises(FormatError, match="line 1 is neither a call"):
        kafkalog.read_schemas(tmp_path / "other.jsonl")


def test_without_a_topic_no_subject_is_preferred() -> None:
    """A topic may be called `None`, too."""
    registry = registry_of(
        *((schema_key(subject), schema_value(subject, 7)) for subject in ("orders-value", "None-value"))
    )
    found = {topic: registry.by_id(7, topic) for topic in (None, "None", "orders")}
    assert {topic: schema and schema.subject for topic, schema in found.items()} == {
        None: "orders-value", "None": "None-value", "orders": "orders-value"
    }  # fmt: skip
