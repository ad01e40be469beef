"""The shipped schemas against those in Kafka's jars, and what Kafka's generated classes make of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import kafka_schemas
from kafka_schemas import (
    INDEX,
    REQUESTS,
    SCHEMAS,
    Published,
    contradictions,
    in_artifact,
    in_release,
    record_types,
    wanted,
)
from kafkalog.cluster.records.messages import Decoded, encode, json_of
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, ABORTED_TRANSACTION_VERSION, encode_transaction_index
from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import layouts, newest
from kafkalog.codec.messages.published import record_types as ours_of
from kafkalog.codec.messages.schema import message_of, parse_schema
from kafkalog.codec.model import AbortedTransaction
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed

Note = Callable[[str, int], None]
VERSIONS = kafka_jars.harness_versions()
NEWEST = kafka_jars.harness_versions()[0]
# The preview of KRaft, whose frame was version 0: no release after it reads what it wrote.
PREVIEW = "org.apache.kafka:kafka-metadata:2.8.2"
NEVER_READ = {
    ("org.apache.kafka:kafka-clients:2.8.2", "LeaderChangeMessage"),
    # KRaft had no SCRAM credentials before 3.5: the schema was there, and nothing wrote it.
    ("org.apache.kafka:kafka-metadata:3.2.3", "UserScramCredentialRecord"),
}
SHIPPED: dict[str, str] = parse_schema(INDEX.read_text())["taken_from"]


def versions_of(theirs: Message, name: str) -> list[tuple[int, int]]:
    """Versions as ours and as theirs: that of a key was its type before 4.1."""
    if name.endswith("Key"):
        return [(newest(name).versions[0], version) for version in theirs.versions]
    return [(version, version) for version in theirs.versions]


def compare(schemas: Iterable[Published]) -> int:
    """How many versions of how many messages have their layout among ours; asserts that all have."""
    count = 0
    problems = []
    for schema in schemas:
        if schema.source == PREVIEW or (schema.source, schema.name) in NEVER_READ:
            continue
        if schema.json["type"] in REQUESTS and not schema.source.endswith(f":{NEWEST}"):
            continue  # of the wire the newest is spoken; releases give its fields other names, and nothing is stored
        theirs = message_of(schema.json)
        for our_version, their_version in versions_of(theirs, schema.name):
            candidates = [each for each in layouts(schema.name) if our_version in each.versions]
            found = [contradictions(each, theirs, our_version, their_version) for each in candidates]
            count += 1
            if [] not in found:
                problems.append((schema.source, schema.name, their_version, found))
    assert problems == []
    return count


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_every_release_has_its_layout(version: str, compared: Note) -> None:
    with kafka_needed():
        schemas = wanted(in_release(version)).values()
    count = compare(schemas)
    assert count > 10
    compared(f"versions of messages in the schemas of {version}", count)


@pytest.mark.interop
@pytest.mark.parametrize("source", sorted(set(SHIPPED.values())))
def test_every_version_of_other_releases_has_its_layout(source: str, compared: Note) -> None:
    with kafka_needed():
        schemas = wanted(tuple(in_artifact(source).values())).values()
    compared(f"versions of messages in the schemas of {source}", compare(schemas))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_record_type_of_every_release_is_known(version: str) -> None:
    with kafka_needed():
        found = record_types(tuple(each for each in in_release(version) if each.source != PREVIEW))
    for topic, types in found.items():
        known = ours_of(topic)
        for kind, name in types.items():
            assert known[int(kind)] == name.removeprefix("Legacy")


@pytest.mark.interop
@pytest.mark.parametrize("file", sorted(SHIPPED))
def test_a_schema_is_what_the_artifact_holds(file: str) -> None:
    name, _, _ = file.partition(".")
    with kafka_needed():
        assert (SCHEMAS / file).read_text() == in_artifact(SHIPPED[file])[name].text


def test_every_schema_file_is_listed() -> None:
    files = {path.name for path in SCHEMAS.glob("*.json")} - {"index.json", "additions.json"}
    assert files == set(SHIPPED)
    assert all("Licensed to the Apache Software Foundation" in (SCHEMAS / file).read_text() for file in files)


def test_what_is_declared_ahead_is_in_no_release_yet() -> None:
    additions = parse_schema((SCHEMAS / "additions.json").read_text())
    with kafka_needed():
        released = {each.name: message_of(each.json) for each in wanted(in_release(NEWEST)).values()}
    assert not set(additions["unreleased"]) & set(released)
    for name, added in additions["unreleased_fields"].items():
        assert not {field.tag for field in released[name].fields} & {field["tag"] for field in added}


def test_entries_of_a_txnindex_are_the_message_that_kafka_generates() -> None:
    """From 4.4 on Kafka has a schema for what its class wrote before: a version, then the message."""
    with kafka_needed():
        (schema,) = (each.json for each in in_release(NEWEST) if each.name == "AbortedTxn")
    theirs = message_of(schema)
    assert theirs.versions == range(ABORTED_TRANSACTION_VERSION, ABORTED_TRANSACTION_VERSION + 1)
    entries = [AbortedTransaction(0, 1 << 40, 7, 1 << 33, 9), AbortedTransaction(0, 0, -1, 0, (1 << 63) - 1)]
    for entry in entries:
        version, *values = (getattr(entry, name) for name in ABORTED_TRANSACTION.names)
        fields = dict(zip((field.name for field in theirs.fields), values, strict=True))
        assert list(fields) == list(ABORTED_TRANSACTION.names[1:])
        assert encode_transaction_index([entry]) == version.to_bytes(2, "big") + encode(theirs, version, fields)


def test_from_one_release_to_the_next_is_an_update_of_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copies = Path(shutil.copytree(SCHEMAS, tmp_path / "schemas"))
    monkeypatch.setattr(kafka_schemas, "SCHEMAS", copies)
    monkeypatch.setattr(kafka_schemas, "INDEX", copies / "index.json")
    index = json.loads(INDEX.read_text())
    for file in [file for file, source in index["taken_from"].items() if source.endswith(f":{NEWEST}")]:
        (copies / file).unlink()
        del index["taken_from"][file]
    (copies / "index.json").write_text(json.dumps({**index, "record_types": {}}))
    with kafka_needed():
        assert kafka_schemas.update("4.1.0") == []
        assert (copies / "RegisterBrokerRecord.json").read_text() != (SCHEMAS / "RegisterBrokerRecord.json").read_text()
        assert kafka_schemas.update(NEWEST) == []
    assert {path.name: path.read_bytes() for path in copies.iterdir()} == {
        path.name: path.read_bytes() for path in SCHEMAS.iterdir()
    }


def test_a_release_that_is_there_already_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copies = Path(shutil.copytree(SCHEMAS, tmp_path / "schemas"))
    monkeypatch.setattr(kafka_schemas, "SCHEMAS", copies)
    monkeypatch.setattr(kafka_schemas, "INDEX", copies / "index.json")
    with kafka_needed():
        assert kafka_schemas.update(NEWEST) == []
    assert {path.name: path.read_bytes() for path in copies.iterdir()} == {
        path.name: path.read_bytes() for path in SCHEMAS.iterdir()
    }


def test_a_version_with_another_meaning_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with kafka_needed():
        schemas = in_release(NEWEST)
    changed = tuple(
        replace(each, text=each.text.replace('"type": "uuid"', '"type": "string"'))
        if each.name == "TopicRecord"
        else each
        for each in schemas
    )
    copies = Path(shutil.copytree(SCHEMAS, tmp_path / "schemas"))
    monkeypatch.setattr(kafka_schemas, "SCHEMAS", copies)
    monkeypatch.setattr(kafka_schemas, "in_release", lambda _: changed)
    (problem,) = kafka_schemas.update(NEWEST)
    assert problem.startswith("TopicRecord version 0")
    assert (copies / "TopicRecord.json").read_text() == (SCHEMAS / "TopicRecord.json").read_text()


PACKAGES = (
    "common.metadata", "common.message", "coordinator.group.generated", "coordinator.share.generated",
    "coordinator.transaction.generated", "server.log.remote.metadata.storage.generated",
)  # fmt: skip
DEFAULTS = """
package schemas;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public final class Defaults {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> type = found(name);
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            for (short v = message.lowestSupportedVersion(); v <= message.highestSupportedVersion(); v++) {
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBufferAccessor buffer =
                    new ByteBufferAccessor(java.nio.ByteBuffer.allocate(message.size(cache, v)));
                message.write(buffer, cache, v);
                String bytes = HexFormat.of().formatHex(buffer.buffer().array());
                Object json = converter.getMethod("write", type, short.class).invoke(null, message, v);
                System.out.println(name + "\\t" + v + "\\t" + bytes + "\\t" + json);
            }
        }
    }

    private static Class<?> found(String name) throws ClassNotFoundException {
        for (String inside : new String[] {PACKAGES}) {
            for (String end : new String[] {"", "Data"}) {
                try {
                    return Class.forName("org.apache.kafka." + inside + "." + name + end);
                } catch (ClassNotFoundException next) {
                }
            }
        }
        throw new ClassNotFoundException(name);
    }
}
""".replace("PACKAGES", ", ".join(f'"{package}"' for package in PACKAGES))


def test_what_is_left_out_is_what_kafkas_classes_give(tmp_path: Path, compared: Note) -> None:
    """A message of nothing but defaults: its bytes and its JSON are those of Kafka's new object, in every version.

    Not only of the messages that are shipped: the same loader reads every schema of requests and responses.
    """
    with kafka_needed():
        classes = kafka_jars.compiled(NEWEST, "schemas", {"schemas/Defaults.java": DEFAULTS})
        released = [each for each in in_release(NEWEST) if each.json["validVersions"] != "none"]
    messages = {each.name: message_of(each.json) for each in released if each.artifact == "kafka-clients"}
    requests = len(messages)
    for file, source in SHIPPED.items():
        if source.endswith(f":{NEWEST}") and newest(file.removesuffix(".json")).versions:
            messages[file.removesuffix(".json")] = newest(file.removesuffix(".json"))
    command = kafka_jars.java(NEWEST, "schemas.Defaults", *sorted(messages), classes=(classes,))
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    seen = set()
    for line in answer.stdout.splitlines():
        name, number, data, text = line.split("\t")
        ours, version = messages[name], int(number)
        fields = {field.name: field.default(version) for field in ours.fields if field.in_version(version)}
        assert encode(ours, version, {}).hex() == data, line
        assert json_of(Decoded(ours, version, fields, 0)) == json.loads(text), line
        seen.add((name, version))
    assert requests > 150
    assert {name for name, _ in seen} == set(messages)
    compared("messages of nothing but defaults", len(seen))
