"""Reading of a registry from the `_schemas` topic in log directories, a file of lines, or a folder of schemas.

A file of lines was written by `kafkalog schemas --export`, or by `kafkalog dump --json` of `_schemas`. In a folder each
schema is a file that is named after its id: `17.avsc`, `18.proto`, `19.json`, or with its subject before the id,
`orders-value@17.avsc`.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from kafkalog.cluster.records.replay import Until
from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.common.wording import counted
from kafkalog.log import open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike, absolute, is_directory, read_small, refuse_no_path, scan_directory
from kafkalog.log.walk.on_damage import STOP
from kafkalog.values.registry import Schema, SchemaDeletion, SchemaReference, SchemaRegistry
from kafkalog.values.schema_log import SCHEMAS_TOPIC, SchemaLog, loaded_json

__all__ = ["check_values", "find_schemas", "read_schema_log", "read_schemas"]

_DIRECTORY = f"{SCHEMAS_TOPIC}-0"

LARGEST_FILE = 256 * MIB
LARGEST_SCHEMA = 16 * MIB
_NAME = re.compile(r"(?:(?P<subject>.+)@)?(?P<id>\d{1,10})(?P<suffix>\.avsc|\.proto|\.json)\Z", re.ASCII)
_PATTERN = "ID.avsc, ID.proto or ID.json, or with the subject before it, as in orders-value@17.avsc,"
_TYPES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
_SUBJECT_VERSIONS = re.compile(r"/subjects/([^/]+)/versions(?:/(\d+))?\Z", re.ASCII)


def check_values(values: str, *schemas: object) -> None:
    """Raise `UsageError` if `values` is neither "auto" nor "bytes", or if it is "bytes" and one of `schemas` is not
    None.
    """
    if values not in ("auto", "bytes"):
        raise UsageError(f"there are no values {values!r}; there are bytes and auto")
    if values == "bytes" and any(schema is not None for schema in schemas):
        raise UsageError("schemas, key_schema and values_schema have no effect without values='auto'")


def read_schemas(
    *paths: PathLike,
    as_of: int | None = None,
    at_offset: int | None = None,
    replica: str | None = None,
) -> SchemaRegistry:
    """Return the schema registry at `paths`: log directories with `_schemas`, one file of lines, or one folder of
    schema files.

    `as_of` (ms since 1970) and `at_offset` select the state at a time or before an offset of `_schemas`; `replica`
    chooses a directory if two have the topic. Reading stops at damage. Damage and invalid records are in
    `SchemaRegistry.findings`. Raises `UsageError` if there is no path or no registry, or if an earlier state of a file
    or folder is requested. Raises it also if two directories have the topic and `replica` chooses none. Raises
    `FormatError` for an invalid file of lines. Raises `StorageError` if a file cannot be read.
    """
    names = [os.fspath(path) for path in paths]
    refuse_no_path(names)
    if len(names) == 1 and (other := _not_a_log(names[0])) is not None:
        if as_of is not None or at_offset is not None:
            raise UsageError(f"{names[0]} has one state only: an earlier one is known from _schemas alone")
        return other
    return read_schema_log(names, Until(at_offset, as_of), replica).finish()


def read_schema_log(paths: Sequence[str], until: Until | None = None, replica: str | None = None) -> SchemaLog:
    """Return the registry of the records of `_schemas` in log directories, as a `SchemaLog` that is not finished.
    `until` bounds the records by offset or time (None: all), and `replica` chooses a directory if two have the topic.
    Reading stops at damage, with a finding. Raises `UsageError` for a path without Kafka data, if no directory has the
    topic, or if two have it and `replica` chooses none. Raises `StorageError` if a file cannot be read. Directories
    that cannot be read raise it only if no other has the topic.
    """
    partitions = _partitions(paths, replica)
    if not partitions:
        open_all(*paths)  # raises what was left out
        raise UsageError(f"no partition of {SCHEMAS_TOPIC} in {', '.join(paths)}, so no schemas are known")
    return _log_of(partitions, until or Until())


def find_schemas(paths: Sequence[str], replica: str | None = None) -> SchemaRegistry:
    """Return the registry in the log directories `paths`. If none of them has `_schemas`, the first partition 0 of it
    in their parent directories, or one level above, is read. So a partition or segment is read with the schemas of its
    log directory. Return an empty registry if there is none. `replica` chooses a directory if two have the topic.

    Directories that cannot be read are skipped. Raises `UsageError` for a path without Kafka data, or if two
    directories have the topic and `replica` chooses none. Raises `StorageError` if its log cannot be read.
    """
    partitions = _partitions(paths, replica)
    if not partitions:
        parents = [os.path.dirname(absolute(path)) for path in paths]
        beside = [os.path.join(each, _DIRECTORY) for parent in parents for each in (parent, os.path.dirname(parent))]
        partitions = _partitions([root for root in dict.fromkeys(beside) if _is_there(root)][:1], replica)
    return _log_of(partitions, Until()).finish() if partitions else SchemaRegistry()


def _is_there(path: str) -> bool:
    try:
        return is_directory(path)
    except StorageError:  # of an object store that lets only a part of its objects be read
        return False


def _partitions(paths: Sequence[str], replica: str | None) -> list[Partition]:
    if not paths:
        return []
    return list(open_all(*paths, tolerant=True).readable(replica, Selection.of([SCHEMAS_TOPIC])))


def _log_of(partitions: Sequence[Partition], until: Until) -> SchemaLog:
    log = SchemaLog(partitions[0].path, SchemaRegistry(sources=tuple(each.path for each in partitions)))
    for partition in partitions:
        _replay(partition, log, until)
    return log


def _replay(partition: Partition, log: SchemaLog, until: Until) -> None:
    records = partition.records(on_damage=STOP)
    for record in records:
        if until.excludes(record.offset, record.timestamp):
            break
        log.take(record.key, record.value, record.offset, record.timestamp)
    log.registry.findings += records.findings


def _not_a_log(path: str) -> SchemaRegistry | None:
    """Return the registry of a file of lines (by its extension) or a folder of schema files (by their names); None if
    the path is neither, for example a log directory. Raises `UsageError` for a folder without subfolders if it has
    schema files but none is named after an id. Raises `FormatError` for a file of lines that is invalid or too large,
    `StorageError` if a file cannot be read.
    """
    if not is_directory(path):
        if os.path.splitext(path)[1] in (".json", ".jsonl", ".ndjson"):
            return _of_lines(path)
        return None
    entries = scan_directory(path)
    names = sorted(entry.name for entry in entries)
    found = [(name, match) for name in names if (match := _NAME.match(name))]
    others = [name for name in names if os.path.splitext(name)[1] in _TYPES and not _NAME.match(name)]
    if found:
        return _of_folder(path, found, others)
    if others and not any(entry.is_dir(follow_symlinks=False) for entry in entries):
        raise UsageError(
            f"{path} is not a log directory, and none of its {counted(len(others), 'file')} is named after the id of a "
            f"schema, such as {others[0]}: {_PATTERN} is expected"
        )
    return None


def _of_folder(path: str, found: Sequence[tuple[str, re.Match[str]]], others: Sequence[str]) -> SchemaRegistry:
    """Return the registry of the files in the folder `path` whose names contain a schema id. `found` has these file
    names, each with its match. The subject is the one in the file name, or the id itself if the name has none. The
    versions of a subject are numbered from 1 in the order of `found`.

    A file that is not UTF-8 or too large is skipped with a finding. If `others`, the files with other names, is not
    empty, there is one finding for all of them. Raises `StorageError` if a file cannot be read.
    """
    registry = SchemaRegistry(sources=(path,))
    if others:
        detail = f"{counted(len(others), 'file')} not named after the id of a schema: {_PATTERN} is expected"
        file = os.path.join(path, others[0])
        registry.findings.append(
            Finding.of(FindingCode.SCHEMA_RECORD_INVALID, None, None, detail, file)
        )  # fmt: skip
    for name, match in found:
        file = os.path.join(path, name)
        try:
            text = read_small(file, LARGEST_SCHEMA).decode("utf-8")
        except (UnicodeDecodeError, FormatError):
            detail = f"not a schema: not UTF-8, or larger than {LARGEST_SCHEMA} bytes"
            registry.findings.append(
                Finding(FindingCode.SCHEMA_RECORD_INVALID, Severity.ERROR, None, None, detail, file)
            )
            continue
        id, subject = int(match["id"]), match["subject"] or match["id"]
        version = 1 + sum(schema.subject == subject for schema in registry.schemas.values())
        registry.schemas[subject, version] = Schema(
            subject=subject, version=version, id=id, type=_TYPES[match["suffix"]], text=text
        )
    return registry


def _of_lines(path: str) -> SchemaRegistry:
    log = SchemaLog(path, SchemaRegistry(sources=(path,)))
    for number, line in enumerate(read_small(path, LARGEST_FILE).split(b"\n")):
        if not line.strip():
            continue
        try:
            fields = loaded_json(line)
            if not isinstance(fields, dict):
                raise TypeError
            if "method" in fields:
                _call(fields, log.registry)
            elif fields.get("topic") == SCHEMAS_TOPIC:
                places = int(fields.get("offset", number)), int(fields.get("timestamp", -1))
                log.take(_bytes(fields, "key"), _bytes(fields, "value"), *places)
            else:
                raise KeyError
        except (ValueError, KeyError, TypeError, OverflowError):
            raise FormatError(
                f"line {number + 1} is neither a call of an export nor a record of {SCHEMAS_TOPIC}",
                code="schema_record_invalid", source=path,
            ) from None  # fmt: skip
    return log.finish()


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_b64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    text = fields[name]
    return None if text is None else str(text).encode("utf-8")


def _call(fields: dict[str, Any], registry: SchemaRegistry) -> None:
    """Apply one line of an export (a REST call as a dict) to the registry, in place. Raises `ValueError`, `KeyError` or
    `TypeError` if it is invalid, or deletes a version that the registry does not have.
    """
    path, given = str(fields["path"]), fields.get("body") or {}
    if not isinstance(given, dict):
        raise TypeError("body")
    body: dict[str, Any] = given
    match = _SUBJECT_VERSIONS.match(path)
    if match is not None:
        subject = unquote(match[1], errors="surrogatepass")
        if fields["method"] == "DELETE":
            place = (subject, int(match[2]))
            registry.schemas[place] = replace(registry.schemas[place], deleted=SchemaDeletion.SOFT)
            return
        references = tuple(
            SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in body.get("references", ())
        )
        schema = Schema(
            subject=subject, version=int(body["version"]), id=int(body["id"]), text=str(body["schema"]),
            type=str(body.get("schemaType") or "AVRO"), references=references,
            rest={name: body[name] for name in ("metadata", "ruleSet") if name in body},
        )  # fmt: skip
        registry.schemas[schema.subject, schema.version] = schema
        return
    kind, _, subject = path[1:].partition("/")
    of = unquote(subject, errors="surrogatepass") if subject else None
    if kind == "config":
        if "compatibilityLevel" in body:
            raise KeyError("compatibility")  # its name in a call
        names = {"compatibility": "compatibilityLevel"}
        registry.compatibility[of] = {names.get(name, name): value for name, value in body.items()}
    elif kind == "mode":
        registry.modes[of] = str(body["mode"])
    else:
        raise KeyError(kind)
