"""`kafkalog schemas`: list or export the schema registry that is stored in `_schemas`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
from msgspec import Struct

from kafkalog.cli.lines import finish, half_done_in, print_lines
from kafkalog.cli.options.common import JSON, REPLICA
from kafkalog.cli.options.past import as_of_time
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.output import LineWriter
from kafkalog.cli.tables import Column, print_table
from kafkalog.cluster.questions.chosen_names import chosen_names
from kafkalog.cluster.records.replay import Until
from kafkalog.codec.common.errors import UnknownName, UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.log import open_all
from kafkalog.values.export import import_calls, schema_records
from kafkalog.values.registry import Schema, SchemaReference, SchemaRegistry, context_of
from kafkalog.values.schema_log import topics_wanted
from kafkalog.values.sources import read_schema_log, read_schemas
from kafkalog.values.used_ids import find_unknown_ids
from kafkalog.words.times import time_text

__all__ = ["command"]



class SchemaLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="schema"):
    """One version of a subject."""

    subject: str
    """its subject"""
    version: int
    """its version"""
    id: int
    """the id that values name"""
    type: str
    """`AVRO`, `PROTOBUF`, `JSON`, or that of a plug-in"""
    context: str
    """the context of the subject; `.` is the default one"""
    references: tuple[SchemaReference, ...]
    """other schemas that this one uses"""
    deleted: str | None
    """how it was deleted, `soft` or `permanent`; null if it was not"""
    compatibility: str
    """the level that counts for the subject"""
    mode: str
    """the mode that counts for the subject"""
    guid: str
    """what `__value_schema_id` headers name: as recorded, or else computed"""
    schema: str
    """its text"""
    offset: int | None
    """of its record in `_schemas`; null if it is from elsewhere"""
    timestamp: int | None
    """of its record, in ms since 1970; null if it is from elsewhere"""


class SettingLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="setting"):
    """A compatibility level or a mode that was set."""

    subject: str | None
    """of which subject; null for all that have none of their own"""
    compatibility: str | None
    """null if it was not set"""
    mode: str | None
    """null if it was not set"""


class RegistryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="registry"):
    """All of it; the last line."""

    sources: list[str]
    """what was read"""
    schemas: int
    """how many versions there are, deleted ones included"""
    live: int
    """how many of them are not deleted"""
    ids: int
    """how many ids there are, those of deleted versions included"""


Line = SchemaLine | SettingLine | RegistryLine
"""One line for each version of a subject, one for each setting, then one for all."""


@click.command(name="schemas")
@PATHS
@click.option("--subject", "subjects", metavar="SUBJECT", multiple=True,
              help="Only this subject: a name or a pattern with *, ? and [...]; may be repeated.")  # fmt: skip
@click.option("--id", "ids", metavar="ID", type=click.IntRange(0, 2**31 - 1), multiple=True,
              help="Only the schema with this id, deleted or not; may be repeated.")  # fmt: skip
@as_of_time
@click.option("--check-values", is_flag=True,
              help="Also read all records in PATH and report schema ids in keys and values that do not "
              "exist.")  # fmt: skip
@click.option("--export", type=click.Choice(["calls", "records"]),
              help="Print the registry as REST calls for a registry in IMPORT mode, or as records for a new _schemas "
              "topic.")  # fmt: skip
@paths_in_properties
@REPLICA
@JSON
def command(
    paths: tuple[str, ...],
    subjects: tuple[str, ...],
    ids: tuple[int, ...],
    as_of: int | None,
    at_offset: int | None,
    check_values: bool,
    export: str | None,
    replica: str | None,
    as_json: bool,
) -> int:
    """Show the subjects, versions and ids of a schema registry, from its _schemas topic on the disk.

    PATH is a log directory that has _schemas; or a .jsonl file that --export or `dump --json` has written, or a
    folder of schemas whose files are named after their ids, such as 17.avsc.  Deleted versions are shown too, as
    long as their records are on the disk.

    --export prints lines that restore the registry with its ids: see docs/values.md.

    Exit code 0 if all is well, 1 if something was found or a name or id is unknown, 4 if something could not be
    read.
    """
    if export is not None and (subjects or ids or check_values or as_json):
        beside = "--subject, --id, --check-values and --json"
        raise UsageError(f"--export is the whole registry, as JSON lines: leave out {beside}")
    if export == "records":
        log = read_schema_log(paths, Until(at_offset, as_of), replica)
        found = log.finish()
        print_lines(schema_records(log))
        return finish(found.findings)
    found = read_schemas(*paths, as_of=as_of, at_offset=at_offset, replica=replica)
    if export is not None:
        print_lines(import_calls(found))
        return finish(found.findings)
    meant = chosen_names("subject", subjects, [schema.subject for schema in found.schemas.values()])
    chosen = [schema for schema in found.schemas.values() if meant(schema.subject) and (not ids or schema.id in ids)]
    if ids and (lacking := sorted(set(ids) - found.ids)):
        raise UnknownName(f"no schema has the id {lacking[0]}")
    findings = [*half_done_in(paths), *found.findings, *(_of_values(found, paths, replica) if check_values else ())]
    if as_json:
        print_lines(_lines(found, chosen))
    else:
        _print(found, chosen, with_text=bool(ids))
    return finish(findings)


def _of_values(registry: SchemaRegistry, paths: tuple[str, ...], replica: str | None) -> Iterator[Finding]:
    inventory = open_all(*paths, tolerant=True)
    yield from inventory.all_unreadable
    yield from find_unknown_ids(registry, inventory.readable(replica, wants=topics_wanted(())))


def _lines(registry: SchemaRegistry, chosen: list[Schema]) -> Iterator[Line]:
    for schema in chosen:
        yield SchemaLine(
            subject=schema.subject,
            version=schema.version,
            id=schema.id,
            type=schema.type,
            context=context_of(schema.subject),
            references=schema.references,
            deleted=None if schema.deleted is None else str(schema.deleted),
            compatibility=registry.compatibility_of(schema.subject),
            mode=registry.mode_of(schema.subject),
            guid=schema.guid or schema.computed_guid,
            schema=schema.text,
            offset=None if schema.offset < 0 else schema.offset,
            timestamp=None if schema.timestamp < 0 else schema.timestamp,
        )
    names = dict.fromkeys([*registry.compatibility, *registry.modes])
    for name in names:
        level = registry.compatibility.get(name, {}).get("compatibilityLevel")
        yield SettingLine(subject=name, compatibility=level, mode=registry.modes.get(name))
    yield RegistryLine(
        sources=list(registry.sources), schemas=len(registry.schemas), live=sum(1 for _ in registry.live()),
        ids=len(registry.ids),
    )  # fmt: skip


def _print(registry: SchemaRegistry, chosen: list[Schema], *, with_text: bool) -> None:
    print_table(
        "schemas",
        [
            Column("subject", wraps=True),
            "version",
            "id",
            "type",
            Column("references", wraps=True, if_any=True, drop=2),
            Column("deleted", if_any=True),
            Column("compatibility", drop=3),
            Column("mode", drop=4),
            Column("written", drop=1, if_any=True),
        ],
        [
            [
                schema.subject, schema.version, schema.id, schema.type,
                " ".join(f"{reference.subject}:{reference.version}" for reference in schema.references),
                "" if schema.deleted is None else str(schema.deleted),
                registry.compatibility_of(schema.subject), registry.mode_of(schema.subject),
                "" if schema.timestamp < 0 else time_text(schema.timestamp),
            ]
            for schema in chosen
        ],
    )  # fmt: skip
    if with_text:
        with LineWriter() as writer:
            for text in dict.fromkeys(schema.text for schema in chosen):
                writer.write("")
                for line in text.splitlines():
                    writer.write(json.dumps(line, ensure_ascii=False)[1:-1].replace('\\"', '"'))
