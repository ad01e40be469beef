"""A registry that is given back has its ids: by the calls of an import, and by records of a new `_schemas`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.values.export import import_calls
from kafkalog.values.registry import Schema, SchemaDeletion, SchemaReference, SchemaRegistry
from testkit.kafka.import_registry import ImportRegistry, RefusedError
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.running.command import kafkalog as run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


def imported(calls: list[dict[str, Any]]) -> ImportRegistry:
    registry = ImportRegistry()
    for each in calls:
        registry.call(each["method"], each["path"], each["body"])
    return registry


def test_a_strict_registry_takes_every_call_and_has_every_id_that_a_value_needs(recorded: Path) -> None:
    finished = run("schemas", "--export", "calls", recorded)
    assert finished.code == 0
    there = imported(finished.objects)
    before = kafkalog.read_schemas(recorded)
    kept = {place: each for place, each in before.schemas.items() if each.deleted is not SchemaDeletion.PERMANENT}
    assert {place: (body["id"], body["schema"]) for place, body in there.schemas.items()} == {
        place: (each.id, each.text) for place, each in kept.items()
    }
    assert there.deleted == {place for place, each in kept.items() if each.deleted is SchemaDeletion.SOFT}
    assert there.config == {None: {"compatibility": "FULL"}}
    assert there.modes == {None: "READWRITE", "imported-indigo": "IMPORT"}
    ids = {body["id"] for body in there.schemas.values()}
    needed = {line["value_schema"]["id"] for line in expected_values()
              if line.get("value_schema") and not line.get("either")}  # fmt: skip
    assert len(needed) > 10
    assert needed <= ids


def test_the_calls_read_back_are_the_same_registry(recorded: Path, tmp_path: Path) -> None:
    first = run("schemas", "--export", "calls", recorded)
    (tmp_path / "export.jsonl").write_text(first.out)
    again = run("schemas", "--export", "calls", tmp_path / "export.jsonl")
    assert sorted(again.lines) == sorted(first.lines)


def test_records_of_a_new_topic_give_the_same_registry(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(run("schemas", "--export", "records", recorded).out)
    made = run("build", tmp_path / "records.jsonl", "--into", tmp_path / "new")
    assert made.code == 0, made.err
    before, after = kafkalog.read_schemas(recorded), kafkalog.read_schemas(tmp_path / "new")
    assert (
        run("schemas", "--export", "calls", tmp_path / "new").lines
        == run("schemas", "--export", "calls", recorded).lines
    )
    forgotten = {place for place, each in before.schemas.items() if each.deleted is SchemaDeletion.PERMANENT}
    assert after.schemas.keys() == before.schemas.keys() - forgotten
    assert after.findings == []


def a_schema(subject: str, id: int, *references: str, deleted: SchemaDeletion | None = None) -> Schema:
    named = tuple(SchemaReference(each, each, 1) for each in references)
    return Schema(
        subject=subject, version=1, id=id, type="AVRO", text=f'"{subject}"', references=named, deleted=deleted
    )


def test_references_come_first_and_circles_end() -> None:
    soft = SchemaDeletion.SOFT
    schemas = [a_schema("a/b c", 1, "z"), a_schema("z", 9, deleted=soft), a_schema("y", 2, "x"), a_schema("x", 3, "y")]
    registry = SchemaRegistry(schemas={(each.subject, 1): each for each in schemas})
    calls = list(import_calls(registry))
    posted = [each["path"] for each in calls if each["method"] == "POST"]
    assert posted.index("/subjects/z/versions") < posted.index("/subjects/a%2Fb%20c/versions")
    assert len(posted) == 4


def test_a_long_chain_of_references_needs_no_stack() -> None:
    schemas = [a_schema(f"s{n}", 100_000 - n, f"s{n + 1}") for n in range(20_000)]
    registry = SchemaRegistry(schemas={(each.subject, 1): each for each in schemas})
    posted = [each["body"]["id"] for each in import_calls(registry) if each["method"] == "POST"]
    assert posted == sorted(posted)


def test_the_stand_in_refuses_what_confluents_registry_refuses() -> None:
    there = ImportRegistry()
    body = {"schema": '"int"', "schemaType": "AVRO", "id": 1, "version": 1}
    with pytest.raises(RefusedError, match="42205"):
        there.call("POST", "/subjects/a/versions", body)
    there.call("PUT", "/mode", {"mode": "IMPORT"})
    there.call("POST", "/subjects/a/versions", body)
    for bad, code in (
        ({**body, "schema": '"long"', "version": 2}, "42205"),
        ({**body, "id": 2, "version": 2, "references": [{"name": "b", "subject": "b", "version": 1}]}, "42201"),
        ({**body, "more": 1}, "422"),
    ):
        with pytest.raises(RefusedError, match=code):
            there.call("POST", "/subjects/a/versions", bad)
    there.call("PUT", "/mode/a", {"mode": "IMPORT"})  # which it is already
    there.call("PUT", "/mode", {"mode": "READWRITE"})
    there.call("PUT", "/mode/a", {"mode": "READWRITE"})
    for path in ("/mode", "/mode/a"):
        with pytest.raises(RefusedError, match="42205"):
            there.call("PUT", path, {"mode": "IMPORT"})
    for path, unknown in (("/config", {"compatibilityLevel": "FULL"}), ("/mode/a", {"mode": "FORWARD"})):
        with pytest.raises(RefusedError, match="422"):
            there.call("PUT", path, unknown)
