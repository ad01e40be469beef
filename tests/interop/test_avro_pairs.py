"""Avro values of one schema read as those of another: the same as Java's Avro gives, which Spark ships.

The differences that are allowed were written down before these pairs were read; docs/values.md has them for users:

1. A field that the writer did not have and that has no default is null; Java refuses the record.
2. Two logical types that count in different units, decimals of different scales or beyond the column's precision, and
   times of day beyond a day are refused; Java takes the number.
3. Bytes that a reader takes for text and that are not UTF-8 are refused; Java puts U+FFFD in their place.
4. A default of a union is of the first type that takes it, as Avro's specification has it since 1.12; Java takes it for
   one of the union's first type, which fails, or gives another value; an empty array fails as such a default.
5. Where Java refuses the reader's schema as a whole, values that do not need what is wrong with it are read.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.log.directories.partition import open_partition
from kafkalog.values.avro_schema import is_optional
from kafkalog.values.decoded_values import DecodedValues
from kafkalog.values.registry import Schema, SchemaRegistry
from testkit.made.avro_pairs import pair_of

pytestmark = [pytest.mark.interop, pytest.mark.java]

PAIRS = 5000
FIRST_SEED = 2_000_000
PROGRAM = Path(__file__).parent / "avro_java" / "ReadPairs.java"


def java_answers(pairs: list[tuple[Any, Any, list[bytes]]]) -> list[list[Any]]:
    jars = Path(pyspark.__file__).parent / "jars"
    lines = "".join(
        json.dumps({"writer": writer, "reader": reader, "payloads": [each.hex() for each in payloads]}) + "\n"
        for writer, reader, payloads in pairs
    )
    done = subprocess.run(
        ["java", "-Xmx300m", "-cp", f"{jars}/*", str(PROGRAM)], input=lines.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def our_answers(tmp_path: Path, writer: Any, reader: Any, payloads: list[bytes]) -> list[tuple[Any, str | None]]:
    directory = tmp_path / "t-0"
    directory.mkdir(exist_ok=True)
    values = [b"\0" + (1).to_bytes(4, "big") + each for each in payloads]
    records = [Record(n, 1, TimestampType.CREATE_TIME, None, each) for n, each in enumerate(values)]
    (directory / f"{0:020}.log").write_bytes(build_batch(records))
    registry = SchemaRegistry()
    for id, text in ((1, writer), (2, reader)):
        registry.schemas["t-value", id] = Schema(
            subject="t-value", version=id, id=id, type="AVRO", text=json.dumps(text)
        )
    table = open_partition(directory).to_arrow(
        on_damage="raise", findings=[], decoding=DecodedValues(schemas=registry, values_schema=2)
    )
    found = table.read_all()
    column, findings = found.column("value"), found.column("finding").to_pylist()
    return list(zip(column, findings, strict=True))


def shown(value: pa.Scalar, schema: Any) -> Any:
    """A value of ours as the Java program shows one."""
    if not value.is_valid:
        return None
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if is_optional(schema):
            return shown(value, others[0])
        (number,) = [number for number in range(len(others)) if _is_set(value, f"member{number}")] or [0]
        return {"branch": number, "value": shown(value[f"member{number}"], others[number])}
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {"record": {each["name"]: shown(value[each["name"]], each["type"]) for each in schema["fields"]}}
    if kind == "array":
        return {"array": [shown(each, schema["items"]) for each in value.values]}
    if kind == "map":
        keys, items = value.values.field(0), value.values.field(1)
        return {"map": {key.as_py(): shown(each, schema["values"]) for key, each in zip(keys, items, strict=True)}}
    return _plain(value, kind, schema)


def _is_set(value: pa.StructScalar, name: str) -> bool:
    return bool(value[name].is_valid)


def _plain(value: pa.Scalar, kind: str, schema: Any) -> Any:
    if kind in ("bytes", "fixed"):
        if pa.types.is_decimal(value.type):
            number = int(value.as_py().scaleb(schema.get("scale", 0)))
            return {"decimal": number}
        return {"bytes": value.as_py().hex()}
    if kind == "boolean":
        return value.as_py()
    if kind in ("int", "long"):
        width = pa.int32() if value.type.bit_width == 32 else pa.int64()
        return str(value.cast(width).as_py())
    return {"number": float(value.as_py())} if kind in ("float", "double") else value.as_py()


def expected(found: Any, schema: Any) -> Any:
    """What the Java program shows, with numbers and decimals as numbers."""
    if found is None:
        return None
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if is_optional(schema):
            return expected(found, others[0])
        return {"branch": found["branch"], "value": expected(found["value"], others[found["branch"]])}
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {"record": {each["name"]: expected(found["record"][each["name"]], each["type"])
                           for each in schema["fields"]}}  # fmt: skip
    if kind == "array":
        return {"array": [expected(each, schema["items"]) for each in found["array"]]}
    if kind == "map":
        return {"map": {name: expected(each, schema["values"]) for name, each in found["map"].items()}}
    if kind == "bytes" and isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return {"decimal": int.from_bytes(bytes.fromhex(found["bytes"]), "big", signed=True)}
    return {"number": float(found)} if kind in ("float", "double") else found


def has_later_default(schema: Any) -> bool:
    """Whether a union has a default that is not of its first type."""
    if isinstance(schema, list):
        return any(map(has_later_default, schema))
    if not isinstance(schema, dict):
        return False
    fields = schema.get("fields", ())
    inner = [schema.get("items"), schema.get("values"), *(each["type"] for each in fields)]
    return any(map(has_later_default, inner)) or any(
        "default" in each and isinstance(each["type"], list) and not _is_of(each["default"], each["type"][0])
        for each in fields
    )


_MISSING = object()


def _is_default(default: Any, schema: Any) -> bool:
    """Whether a default fits a type, a union's first one, at any depth."""
    return _is_of(default, schema[0] if isinstance(schema, list) else schema)


def _is_of(default: Any, schema: Any) -> bool:
    kind = schema if isinstance(schema, str) else schema["type"]
    kinds = {
        "null": type(None), "boolean": bool, "int": int, "long": int, "float": int | float, "double": int | float,
        "array": list, "map": dict, "record": dict,
    }  # fmt: skip
    if kind == "record" and isinstance(default, dict):
        given = {each["name"]: default.get(each["name"], each.get("default", _MISSING)) for each in schema["fields"]}
        return all(_is_default(given[each["name"]], each["type"]) for each in schema["fields"])
    if kind in ("array", "map") and isinstance(default, list | dict):
        inner = default.values() if isinstance(default, dict) else default
        fits = all(_is_default(each, schema["values" if kind == "map" else "items"]) for each in inner)
        return fits and isinstance(default, kinds[kind])
    if kind in ("int", "long") and isinstance(default, int):
        return bool(abs(default) < 2 ** (31 if kind == "int" else 63))
    if kind == "fixed" and isinstance(default, str):
        return bool(len(default) == schema["size"])
    return isinstance(default, kinds.get(kind, str)) and (kind != "enum" or bool(default in schema["symbols"]))


def rule_of(theirs: Any, ours: Any, finding: str | None, writer: Any, reader: Any) -> int | None:
    """By which rule two answers may differ; None if by none."""
    refused = isinstance(theirs, dict) and "error" in theirs
    if isinstance(theirs, dict) and "invalid" in theirs:
        return 5
    if refused and "missing required field" in theirs["error"] and finding is None:
        return 1
    if finding is None and (has_later_default(reader) or (refused and "Not an array" in theirs["error"])):
        return 4
    if finding is None or refused:
        return None
    if "not UTF-8" in finding and "\\ufffd" in json.dumps(theirs):
        return 3
    if "logicalType" not in json.dumps(reader):
        return None
    return 2 if "does not fit the type" in finding or "logicalType" in json.dumps(writer) else None


def test_the_same_as_javas_avro(tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    pairs = [pair_of(FIRST_SEED + number) for number in range(PAIRS)]
    theirs = java_answers(pairs)
    by_rule: Counter[int] = Counter()
    same = both_refuse = 0
    for number, ((writer, reader, payloads), answers) in enumerate(zip(pairs, theirs, strict=True)):
        for answer, (value, finding) in zip(answers, our_answers(tmp_path, writer, reader, payloads), strict=True):
            if isinstance(answer, dict) and ("error" in answer or "invalid" in answer):
                if finding is not None:
                    both_refuse += 1
                    continue
            elif finding is None and shown(value, reader) == expected(answer, reader):
                same += 1
                continue
            rule = rule_of(answer, value, finding, writer, reader)
            assert rule is not None, (FIRST_SEED + number, writer, reader, answer, value, finding)
            by_rule[rule] += 1
    assert same > PAIRS
    assert both_refuse > PAIRS // 20
    compared("Avro values of another version, the same as Java's", same)
    compared("Avro values that Java and kafkalog refuse", both_refuse)
    for rule, count in sorted(by_rule.items()):
        compared(f"Avro values that differ by rule {rule}", count)
