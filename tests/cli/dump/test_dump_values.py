"""`dump --json --values auto` prints what serializers were given, and the bytes of what does not decode."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec.common.findings import FindingCode
from testkit.recorded.fixture_data import expected_values, unpack_values
from testkit.running.command import kafkalog as run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


def same(wanted: Any, found: Any) -> bool:
    """Numbers by value, a boolean is none; what is absent is null."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(same(wanted.get(name), found.get(name)) for name in {*wanted, *found})
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(same, wanted, found))
    return bool(wanted == found)


def is_bytes(wanted: dict[str, Any], found: dict[str, Any], part: str, raw: str | None) -> bool:
    encoded = wanted.get(f"{part}_b64", raw)
    return found[part] is None and found.get(f"{part}_b64") == encoded and part in found.get("finding", "")


def is_value(wanted: dict[str, Any], found: dict[str, Any], part: str) -> bool:
    schema = wanted.get(f"{part}_schema")
    return (
        f"{part}_b64" not in found
        and same(wanted.get(part), found[part])
        and found[f"{part}_schema"] == schema
    )  # fmt: skip


def problem(wanted: dict[str, Any], found: dict[str, Any], part: str) -> bool:
    if wanted.get("any") and part == "value":
        return not (found["value_schema"] is not None or is_bytes(wanted, found, part, None) or "finding" not in found)
    if wanted.get(f"{part}_bad"):
        return not is_bytes(wanted, found, part, None)
    if wanted.get("either") and part == "value" and is_bytes(wanted, found, part, None):
        return False
    return not is_value(wanted, found, part)


def test_every_recorded_key_and_value(recorded: Path) -> None:
    finished = run("dump", "--json", "--values", "auto", recorded, "--exclude", "_schemas", "--exclude", "__*")
    assert finished.code == 1
    assert "Traceback" not in finished.err
    found = {(each["topic"], each["partition"], each["offset"]): each for each in finished.objects}
    wanted = expected_values()
    assert len(found) == len(wanted) == 732
    wrong = [
        (line["topic"], line["offset"], part)
        for line in wanted
        for part in ("key", "value")
        if problem(line, found[line["topic"], line["partition"], line["offset"]], part)
    ]
    assert wrong == []
    assert str(FindingCode.VALUE_UNDECODABLE) in finished.err


def test_a_partition_is_read_by_the_schemas_beside_it(recorded: Path) -> None:
    partition = recorded / "references-cedar-0"
    (segment,) = partition.glob("*.log")
    for path in (partition, segment):
        first = run("dump", "--json", "--values", "auto", "-n", 1, path).objects[0]
        assert first["value_schema"] == {"id": 163, "type": "AVRO", "subject": "references-cedar-value"}


def test_schemas_from_an_export_and_from_nowhere(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").write_text(run("schemas", "--export", "calls", recorded).out)
    partition = tmp_path / "elsewhere" / "references-cedar-0"
    partition.mkdir(parents=True)
    for file in (recorded / "references-cedar-0").iterdir():
        (partition / file.name).write_bytes(file.read_bytes())
    given = ("dump", "--json", "--values", "auto", partition)
    with_schemas = run(*given, "--schemas", tmp_path / "export.jsonl")
    assert with_schemas.objects == run("dump", "--json", "--values", "auto", recorded / "references-cedar-0").objects
    without = run(*given)
    assert without.code == 1
    assert {each["finding"] for each in without.objects} == {"value: no schema here has id 163"}


def test_a_masked_field_is_seen_nowhere(recorded: Path) -> None:
    given = ("dump", "--json", "--values", "auto", recorded)
    shown = run(*given, "-t", "orders-maple")
    assert '"currency":"EUR"' in shown.out
    hidden = run(*given, "-t", "orders-maple", "--mask", "currency", "--mask", "id")
    assert '"currency":"EUR"' not in hidden.out
    assert {each["value"]["id"] for each in hidden.objects if each["value"]} == {"[masked]"}
    assert len(hidden.objects) == len(shown.objects)


def test_with_masks_no_bytes_are_shown(recorded: Path) -> None:
    finished = run(
        "dump", "--json", "--values", "auto", "-t", "garbage-umber", "-t", "mutated-*", "--mask", "x", recorded
    )
    assert "_b64" not in finished.out.replace("headers_b64", "")
    assert any("finding" in each for each in finished.objects)


def test_nothing_of_a_value_is_in_a_finding(recorded: Path) -> None:
    finished = run("dump", "--json", "--values", "auto", recorded)
    told = finished.err + "".join(each.get("finding", "") for each in finished.objects)
    words = {word for each in expected_values() if each.get("value_b64")
             for word in base64.b64decode(each["value_b64"]).decode("latin-1").split()
             if word.isascii() and word.isalpha() and len(word) > 5}  # fmt: skip
    assert len(words) > 10
    assert [word for word in words if word in told.replace("maple", "").replace("cedar", "").replace("umber", "")] == []


@pytest.mark.parametrize(
    "given",
    [
        ("--values", "auto"),
        ("--json", "--mask", "a"),
        ("--json", "--schemas", "x"),
        ("--json", "--values", "auto", "--encoding", "base64"),
        ("--json", "--values", "auto", "--redact"),
        ("--json", "--batches", "--values", "auto"),
    ],
)
def test_what_makes_no_sense_is_refused(given: tuple[str, ...], recorded: Path) -> None:
    assert run("dump", *given, recorded).code == 64
