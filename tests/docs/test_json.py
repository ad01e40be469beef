"""What commands print with --json is what docs/json says, of every command and on directories of all kinds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

import json_pages
from kafkalog.cli.main import COMMANDS, command_of
from testkit.recorded.broker_dirs import brokers
from testkit.running import json_runs
from testkit.running.command import kafkalog, schema_of
from testkit.running.shares import EACH

KAFKAS_OWN = {"voters", "controllers", "acls", "delegation_tokens", "quorum_state", "features"}
"""fields that hold messages of Kafka's as they are"""


def commands_with_json() -> set[str]:
    found = set()
    for name in COMMANDS:
        command = command_of(name)
        several = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for sub, each in several:
            if any("--json" in option.opts for option in each.params):
                found.add(schema_of([name, sub]))
    return found


def test_every_command_with_json_has_a_schema_and_no_schema_is_of_nothing() -> None:
    assert set(json_pages.schemas()) - {"common"} == commands_with_json()


@pytest.mark.parametrize("name", sorted(json_pages.schemas()))
def test_a_schema_is_one_and_says_what_each_field_is(name: str) -> None:
    schema = json_pages.schemas()[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"{name}.schema.json"
    found = list(json_pages.objects(schema))
    assert found
    for each in found:
        open_ones = each.get("additionalProperties") is not False
        assert not open_ones or "quorum-state" in each.get("description", ""), each
        assert set(each["required"]) <= set(each["properties"])
        for field, value in each["properties"].items():
            assert value.get("description"), f"{name}: {field}"
            assert value.get("type") != "object" or "additionalProperties" in value or field in KAFKAS_OWN, field


@EACH
def test_every_line_of_every_command_is_what_its_schema_says(each: int, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for name, finished in json_runs.every_run(tmp_path, each):
        assert "Traceback" not in finished.err
        for line in filter(None, finished.out.split("\n")):
            seen[name] += 1
            wrong += json_pages.problems_of_line(name, line)
    assert wrong == []
    assert set(seen) == set(json_pages.schemas()) - {"common"}, "a command printed no line"


@pytest.mark.parametrize("name", ["ls", "verify", "plan", "compare", "offsets", "dump"])
def test_a_line_that_is_not_what_the_schema_says_is_found(name: str, tmp_path: Path) -> None:
    paths = brokers("2.8.2/zkhist") if name == "compare" else brokers("4.1.1/groups")[:1]
    line = kafkalog(name, "--json", *paths).objects[0]
    assert json_pages.problems(name, line) == []
    first = next(iter(line))
    for changed in (
        {**line, "another": 1},
        {key: value for key, value in line.items() if key != first},
        {**line, first: 1.5},
    ):
        assert json_pages.problems(name, changed), changed


@pytest.mark.parametrize("command", ["ls", "verify", "plan", "runs"])
def test_one_directory_gives_the_same_line_alone_and_among_several(command: str) -> None:
    found = brokers("2.8.2/zkhist")
    together = kafkalog(command, "--json", *found).objects
    assert [each["path"] for each in together] == [str(path) for path in found]
    for path, line in zip(found, together, strict=True):
        (alone,) = kafkalog(command, "--json", path).objects
        assert alone.keys() == line.keys()
        assert without_findings(alone) == without_findings(line)


def without_findings(line: dict[str, Any]) -> str:
    """Without what is told of copies on other brokers, where they are seen."""
    left_out = ("findings", "clean", "refusal")
    return json.dumps({key: value for key, value in line.items() if key not in left_out}, sort_keys=True)


def test_the_schemas_are_made_from_the_types() -> None:
    for name, schema in json_pages.made().items():
        text = (json_pages.FOLDER / f"{name}{json_pages.SUFFIX}").read_text()
        assert text == json_pages.text_of(schema), "run tests/support/json_pages.py --write"


def test_the_page_is_made_from_the_schemas() -> None:
    assert json_pages.PAGE.read_text() == json_pages.page(), "run tests/support/json_pages.py --write"
