"""The message schemas inside of Kafka's jars, and what brings the package's copies up to date.

Run as a program with a version of ``tests/interop/kafka/versions.toml`` it writes that release's schemas to
``codec/messages/schemas``. Where a release gave a version that was there before another meaning it writes nothing and
says what to do.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kafkalog.codec.messages.field import Field
from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import schema_file
from kafkalog.codec.messages.schema import message_of, parse_schema
from testkit.kafka import kafka_jars

SCHEMAS = kafka_jars.ROOT / "codec" / "messages" / "schemas"
INDEX = SCHEMAS / "index.json"
ADDITIONS = SCHEMAS / "additions.json"
# Kafka's artifacts with record types, and the topic that holds them.
TOPICS = {
    "kafka-metadata": "__cluster_metadata",
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-transaction-coordinator": "__transaction_state",
    "kafka-storage": "__remote_log_metadata",
}
RECORDS = ("metadata", "coordinator-key", "coordinator-value")
# Messages of the wire: those of the brokers' protocol, which `server` speaks.
REQUESTS = ("request", "response", "header")
# Messages without a record type that are read all the same.
OTHERS = {
    "LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord",
    "ConsumerProtocolSubscription", "ConsumerProtocolAssignment",
}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """A schema as a jar holds it."""

    artifact: str
    version: str
    text: str

    @property
    def json(self) -> dict[str, Any]:
        return parse_schema(self.text)

    @property
    def name(self) -> str:
        return str(self.json["name"])

    @property
    def source(self) -> str:
        return f"org.apache.kafka:{self.artifact}:{self.version}"


def in_jar(path: Path) -> Iterator[Published]:
    """The schemas in a jar of Kafka's."""
    artifact, _, version = path.stem.rpartition("-")
    with zipfile.ZipFile(path) as jar:
        for name in sorted(jar.namelist()):
            if re.search(r"common/(message|metadata)/\w+\.json\Z|\Amessage/\w+\.json\Z", name):
                yield Published(artifact, version, jar.read(name).decode())


@cache
def in_release(version: str) -> tuple[Published, ...]:
    """All schemas of a release; sets the release up if needed."""
    kafka_jars.setup(version)
    return tuple(each for path in kafka_jars.jars(version) if path.stem.startswith("kafka") for each in in_jar(path))


@cache
def in_artifact(source: str) -> dict[str, Published]:
    """The schemas of one artifact by name; `source` is group, artifact and version."""
    _, artifact, version = source.split(":")
    folder = kafka_jars.cache_directory() / "schemas"
    jar = folder / f"{artifact}-{version}.jar"
    of_a_release = kafka_jars.version_directory(version) / "lib" / jar.name
    if of_a_release.is_file():
        jar = of_a_release
    if not jar.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={source}", f"-DoutputDirectory={made}"]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=kafka_jars.SETUP_SECONDS)
            except (OSError, subprocess.SubprocessError) as error:
                raise kafka_jars.KafkaUnavailableError(f"Maven did not resolve {source}: {error}") from error
            (Path(made) / jar.name).rename(jar)
    return {each.name: each for each in in_jar(jar)}


def contradictions(ours: Message, theirs: Message, our_version: int, their_version: int) -> list[str]:
    """Where two versions mean different bytes; a tagged field that is added later changes nothing."""
    where = f"{theirs.name} version {their_version}"
    if ours.encoding(our_version) is not theirs.encoding(their_version):
        return [f"{where}: {ours.encoding(our_version)} and {theirs.encoding(their_version)}"]
    return _differences(where, _Fields(ours.fields, our_version), _Fields(theirs.fields, their_version))


@dataclass(frozen=True)
class _Fields:
    """The fields of one version."""

    fields: tuple[Field, ...]
    version: int

    def ordinary(self) -> list[Field]:
        return [field for field in self.fields if field.in_version(self.version) and self.version not in field.tagged]

    def tagged(self) -> dict[int, Field]:
        return {field.tag: field for field in self.fields if field.tag is not None and self.version in field.tagged}

    def of(self, field: Field) -> _Fields:
        return _Fields(field.fields, self.version)

    def kind(self, field: Field) -> tuple[object, ...]:
        return field.name, field.type, field.array, self.version in field.nullable


def _differences(where: str, ours: _Fields, theirs: _Fields) -> list[str]:
    names = [[field.name for field in each.ordinary()] for each in (ours, theirs)]
    if names[0] != names[1]:
        return [f"{where}: {names[0]} and {names[1]}"]
    found = [f"{where}: tag {tag} is missing" for tag in sorted(set(theirs.tagged()) - set(ours.tagged()))]
    pairs = list(zip(ours.ordinary(), theirs.ordinary(), strict=True))
    pairs += [(ours.tagged()[tag], field) for tag, field in theirs.tagged().items() if tag in ours.tagged()]
    for one, other in pairs:
        if ours.kind(one) != theirs.kind(other):
            found.append(f"{where}: {ours.kind(one)} and {theirs.kind(other)}")
        found += _differences(f"{where}.{other.name}", ours.of(one), theirs.of(other))
    return found


def is_read(schema: Published) -> bool:
    """Whether the package reads messages of that schema; before 4.1 those of coordinators had no type of their own."""
    if schema.name in OTHERS or schema.json["type"] in (*RECORDS, *REQUESTS):
        return True
    holds_records = schema.artifact in TOPICS or schema.artifact.startswith("kafka_")
    return holds_records and re.search("(Group|Offset|Transaction|Share).*(Key|Value)$", schema.name) is not None


def record_types(schemas: tuple[Published, ...]) -> dict[str, dict[str, str]]:
    """Topic -> record type -> name, as a release's schemas say; key and value have what both names begin with."""
    found: dict[str, dict[str, str]] = {}
    for each in schemas:
        schema = each.json
        if schema["type"] in RECORDS and each.artifact in TOPICS and schema["type"] != "coordinator-value":
            types = found.setdefault(TOPICS[each.artifact], {})
            types[str(schema["apiKey"])] = str(schema["name"]).removesuffix("Key")
    return {topic: {kind: types[kind] for kind in sorted(types, key=int)} for topic, types in sorted(found.items())}


def apis(schemas: tuple[Published, ...]) -> dict[str, str]:
    """API key -> what the names of its request and its response begin with."""
    found = {int(each.json["apiKey"]): each.name.removesuffix("Request") for each in schemas
             if each.json["type"] == "request"}  # fmt: skip
    return {str(key): found[key] for key in sorted(found)}


def wanted(schemas: tuple[Published, ...]) -> dict[str, Published]:
    """Those that the package reads, by name."""
    replaced = {
        f"{types[kind]}{end}"
        for topic, types in record_types(schemas).items()
        for kind, name in parse_schema(ADDITIONS.read_text())["record_types"].get(topic, {}).items()
        if kind in types and types[kind] != name
        for end in ("Key", "Value")
    }
    return {each.name: each for each in schemas if each.name not in replaced and is_read(each)}


def update(version: str) -> list[str]:
    """Bring the copies to a release; what is in the way of that."""
    schemas = wanted(in_release(version))
    problems: list[str] = []
    for name, each in sorted(schemas.items()):
        path = SCHEMAS / schema_file(name, "")
        if not path.is_file() or each.json["type"] in REQUESTS:
            continue  # of the wire the newest is spoken: a field under another name is no other meaning of stored bytes
        before, after = (message_of(parse_schema(text)) for text in (path.read_text(), each.text))
        for number in before.versions:
            problems += contradictions(after, before, number, number) if number in after.versions else []
    if problems:
        return problems
    index = parse_schema(INDEX.read_text()) if INDEX.is_file() else {"record_types": {}, "taken_from": {}}
    types = record_types(in_release(version))
    merged = {topic: index["record_types"].get(topic, {}) | types.get(topic, {}) for topic in TOPICS.values()}
    taken = index["taken_from"] | {schema_file(name, ""): each.source for name, each in schemas.items()}
    for name, each in schemas.items():
        (SCHEMAS / schema_file(name, "")).write_text(each.text)
    index = {
        "kafka": version,
        "apis": index.get("apis", {}) | apis(in_release(version)),
        "record_types": {
            topic: dict(sorted(each.items(), key=lambda pair: int(pair[0]))) for topic, each in sorted(merged.items())
        },
        "taken_from": dict(sorted(taken.items())),
    }
    INDEX.write_text(json.dumps(index, indent=2) + "\n")
    return []


def main(arguments: list[str]) -> int:
    """Bring the schemas to the release that is named."""
    (version,) = arguments
    problems = update(version)
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    if problems:
        sys.stdout.write(
            "nothing was written: a version has another meaning than before. Rename the file that was there to "
            "NAME.RELEASES.json, move its line in index.json, list both in additions.json under written_by, run again\n"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
