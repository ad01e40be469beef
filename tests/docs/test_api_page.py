"""What docs/api.md shows works, on bytes that a broker wrote."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

import kafkalog
import kafkalog.types
from testkit.recorded.broker_dirs import brokers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def shown_entries() -> list[bytes]:
    """The entries of logs that the page shows, as bytes."""
    found = re.findall(r"fromhex\(\s*(.*?)\s*\)", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data = [bytes.fromhex("".join(re.findall(r'"([0-9a-f]+)"', text))) for text in found]
    return [entry for entry in data if len(entry) > 30]


def test_the_examples() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 20


def test_the_bytes_are_those_of_a_broker_in_every_magic() -> None:
    entries = shown_entries()
    assert {entry[16] for entry in entries} == {0, 1, 2}
    logs = [path.read_bytes() for path in brokers("2.8.2/codecs")[0].parent.rglob("*.log")]
    assert all(any(entry in log for log in logs) for entry in entries)


JSON_ROWS = [
    re.findall(r"`(\w+)`", line.split(" | ")[0])
    for line in PAGE.read_text(encoding="utf-8").partition("## Results as JSON")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
]
WITH_UNIONS = {"departures", "explain"}
"""Their classes have unions of Structs, which msgspec encodes and does not describe."""


def obstacles(kind: Any, seen: set[str]) -> Iterator[str]:
    """What prevents msgspec from encoding every value of a type, as it describes the type."""
    if isinstance(kind, types.CustomType):
        yield str(kind.cls)
    if isinstance(kind, types.DictType):
        keys = kind.key_type.types if isinstance(kind.key_type, types.UnionType) else (kind.key_type,)
        simple = types.StrType | types.IntType | types.EnumType
        yield from (f"a key {key}" for key in keys if not isinstance(key, simple))
    if str(kind) not in seen:
        seen.add(str(kind))
        for name in kind.__struct_fields__:
            value = getattr(kind, name)
            for part in value if isinstance(value, tuple) else (value,):
                part = part.type if isinstance(part, types.Field) else part
                yield from obstacles(part, seen) if isinstance(part, types.Type) else ()


def returned(name: str) -> Any:
    """The type that a public function returns."""
    function = inspect.unwrap(getattr(kafkalog, name))
    return typing.get_type_hints(function)["return"]


@pytest.mark.parametrize("name", sorted({*JSON_ROWS[2]} - WITH_UNIONS))
def test_msgspec_encodes_every_result_of_which_the_page_says_so(name: str) -> None:
    hint = returned(name)
    for kind in typing.get_args(hint) if name == "elections" else [hint]:
        assert list(obstacles(types.type_info(kind), set())) == []


def test_the_search_finds_obstacles() -> None:
    assert any("key" in each for each in obstacles(types.type_info(kafkalog.LogDir), set()))
    assert list(obstacles(types.type_info(returned("metadata")), set()))


def test_results_become_json_in_the_way_that_the_page_says() -> None:
    (broker,) = brokers("4.1.1/metadata")
    log = next(broker.glob("*-0/*.log"))
    for each in (kafkalog.departures(broker, brokers=[1]), kafkalog.explain(str(log)), kafkalog.elections(broker)):
        assert msgspec.json.decode(msgspec.json.encode(each, enc_hook=str))
    (plan,) = kafkalog.plan(broker)
    assert json.loads(json.dumps(plan.as_dict()))["path"] == plan.root
    assert [json.loads(json.dumps(each)) for each in kafkalog.verify(broker).as_dicts()]
    public = [getattr(module, name) for module in (kafkalog, kafkalog.types) for name in vars(module)["__all__"]]
    with_as_dict = {each.__name__ for each in public if hasattr(each, "as_dict") or hasattr(each, "as_dicts")}
    assert with_as_dict == {"Plan", "RecoveryResult", "VerifyReport"}
