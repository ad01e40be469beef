"""Reading of a partition as Arrow batches with decoded keys and values, each column of one type.

The type is that of the latest version of the topic's subject; values of other versions are converted by Avro's rules. A
value that cannot be decoded is null, with its bytes and the reason in additional columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import Header
from kafkalog.log.reading.records import RecordReader
from kafkalog.log.walk.on_damage import STOP
from kafkalog.values.column_schema import ColumnSchema, NamedSchema
from kafkalog.values.decoding import ValueDecoder, schema_of
from kafkalog.values.payloads import Framed, UndecodableError, framed
from kafkalog.values.registry import Schema, SchemaRegistry
from kafkalog.values.sources import find_schemas

if TYPE_CHECKING:
    from kafkalog.log.reading.column_decoding import ReadColumns
    from kafkalog.log.reading.readable import ReadablePartition
    from kafkalog.values.arrow_column import ColumnDecoder, Decoded

__all__ = [
    "DecodedReader", "column_schema", "decoded_reader", "first_frames", "headers_of",
    "messages_of", "named_schema", "subjects_of",
]  # fmt: skip

_LOOKED_AT, _LEAST = 1000, 20
"""Records that are examined if no subject has the topic's name: of all partitions together, and of each at least."""
_PARTS = ("key", "value")
_MOST_PROBLEMS = 50


def decoded_reader(
    partition: ReadablePartition,
    read: ReadColumns,
    columns: Iterable[str] | None,
    findings: list[Finding] | None,
    registry: SchemaRegistry | None,
    named: tuple[NamedSchema | ColumnSchema | None, NamedSchema | ColumnSchema | None],
) -> pa.RecordBatchReader:
    """Return a reader of the named columns of a partition (None: the default ones) with decoded keys and values. A
    decoded `key` adds the columns `key_schema` and `key_bytes`, a decoded `value` likewise, and either adds `finding`;
    see `docs/values.md`. `read` is a function that opens the columns undecoded. `named` are the schemas of key and
    value; for None, a schema is chosen by the first records, which are read now. If `registry` is None, the registry
    beside the partition is used. Findings about damage and values that cannot be decoded are added to the list
    `findings`; without a list they become warnings.

    Raises `UsageError` for an unknown column or schema, or a missing package, `StorageError` if a file cannot be read.
    """
    decoder = ValueDecoder(find_schemas([partition.path]) if registry is None else registry)
    names = record_schema(columns).names
    with needed("to_arrow of decoded values", "values"):
        decoders = {
            part: _column(decoder, partition, part, of_part)
            for part, of_part in zip(_PARTS, named, strict=True)
            if part in names
        }
    read_names = [*names, *(["headers"] if "headers" not in names and decoders else [])]
    reader = DecodedReader(partition, read(read_names, findings=findings), names, decoders, findings)
    return pa.RecordBatchReader.from_batches(reader.schema, iter(reader))


def _column(
    decoder: ValueDecoder, partition: ReadablePartition, part: str, named: NamedSchema | ColumnSchema | None
) -> ColumnDecoder:
    from kafkalog.values.arrow_column import ColumnDecoder

    chosen = named if isinstance(named, ColumnSchema) else column_schema(decoder, [partition], part, named)
    return ColumnDecoder(decoder, partition.topic, part, chosen)


def column_schema(
    decoder: ValueDecoder, partitions: Sequence[ReadablePartition], part: str, named: NamedSchema | None = None
) -> ColumnSchema:
    """Return the schema of the column of keys or values (`part`) of a topic. All partitions (at least one) belong to
    this topic. It is the schema `named`; if that is None, it is the latest schema of the only subject that the first
    records use. Without `named`, `reader` of the result is None if they use no subject, several subjects or several
    Protobuf messages.

    The first records are not read if a schema other than Protobuf is named. Raises `UsageError` if the named schema is
    unknown or a package is missing, `StorageError` if a file cannot be read.
    """
    topic = partitions[0].topic
    reader = None if named is None else named_schema(decoder.registry, named)
    if reader is not None and reader.type != "PROTOBUF":
        return ColumnSchema(reader)
    most = max(_LOOKED_AT // len(partitions), _LEAST)
    frames = [first_frame for partition in partitions for first_frame in first_frames(partition, part, most)]
    reader = reader or _chosen(decoder, topic, part, frames)
    paths = [b""]
    if reader is not None and reader.type == "PROTOBUF":
        with needed("decoded values", "values"):
            paths = [*messages_of(decoder, frames, topic, part, reader).values()] or paths
        if len(paths) > 1 and named is None:
            reader = None  # several messages of one schema have no type in common
    return ColumnSchema(reader, paths[0])


def named_schema(registry: SchemaRegistry, named: NamedSchema) -> Schema:
    """Return the schema that a caller names: the latest version of a subject (str), the schema with an id (int), or a
    `Schema` itself. Deleted versions of a subject count only if all are deleted. Raises `UsageError` if the registry
    does not have the schema, or for another type.
    """
    if not isinstance(named, str | int | Schema):
        raise UsageError("a schema is named by its subject, its id, or one of a registry")
    schema = registry.latest(named) if isinstance(named, str) else (
        registry.by_id(named) if isinstance(named, int) else named
    )  # fmt: skip
    if schema is None:
        raise UsageError(f"no schema here has the {'subject' if isinstance(named, str) else 'id'} {named!r}")
    return schema


def first_frames(partition: ReadablePartition, part: str, most: int = _LOOKED_AT) -> list[Framed]:
    """Return the frames (payload with schema id or GUID) of the first keys or values (`part`) that have one, in offset
    order. At most `most` records are examined. Records with an invalid frame are skipped, and reading stops at damage.
    Raises `StorageError` if a file cannot be read.
    """
    payloads = []
    for record in islice(RecordReader(partition, on_damage=STOP), most):
        data = record.key if part == "key" else record.value
        try:
            frame = None if data is None else framed(data, record.headers, part)
        except UndecodableError:
            continue
        if frame is not None:
            payloads.append(frame)
    return payloads


def _chosen(decoder: ValueDecoder, topic: str | None, part: str, frames: Sequence[Framed]) -> Schema | None:
    """Return the latest schema of the only subject that the first records use; None if they use none or several."""
    subjects = subjects_of(decoder.registry, topic, part, frames)
    return decoder.registry.latest(subjects.pop()) if len(subjects) == 1 else None


def subjects_of(registry: SchemaRegistry, topic: str | None, part: str, frames: Sequence[Framed]) -> set[str]:
    """Return the subjects of the schemas that frames name. A schema of several subjects counts for one of them, chosen
    by `topic` and `part` as in `schema_of`. Schemas that are missing in the registry are skipped.
    """
    subjects = set()
    for frame in frames:
        try:
            subjects.add(schema_of(registry, frame, topic, part).subject)
        except UndecodableError:
            continue
    return subjects


def messages_of(
    decoder: ValueDecoder, frames: Sequence[Framed], topic: str | None, part: str, reader: Schema
) -> dict[str, bytes]:
    """Return the Protobuf messages of the reader's subject that frames use, in the order of first use, as a dict: full
    name -> bytes that begin with the encoded path to the message.

    Frames of other subjects, and frames that cannot be decoded, are skipped. Raises `UsageError` if a package is
    missing.
    """
    from kafkalog.values.protobuf import ProtobufDecoder

    paths: dict[str, bytes] = {}
    for frame in frames:
        try:
            schema = schema_of(decoder.registry, frame, topic, part)
            payload_decoder = decoder.decoder_of(schema)
            if schema.subject == reader.subject and isinstance(payload_decoder, ProtobufDecoder):
                paths.setdefault(payload_decoder.name_in(frame.payload, frame.path), frame.path or frame.payload)
        except UndecodableError:
            continue
    return paths


class DecodedReader:
    """An iterable that decodes Arrow batches one after the other."""

    def __init__(
        self,
        partition: ReadablePartition,
        reader: pa.RecordBatchReader,
        names: Sequence[str],
        columns: dict[str, ColumnDecoder],
        findings: list[Finding] | None,
    ) -> None:
        from kafkalog.values.arrow_column import SCHEMA_TYPE

        self._reader, self._names, self._columns = reader, names, columns
        self._findings, self._path = findings, partition.path
        fields = [
            pa.field(name, columns[name].type) if name in columns else reader.schema.field(name) for name in names
        ]
        for part in columns:
            fields += [pa.field(f"{part}_schema", SCHEMA_TYPE), pa.field(f"{part}_bytes", pa.binary())]
        if columns:
            fields.append(pa.field("finding", pa.string()))
        self.schema = pa.schema(fields, reader.schema.metadata)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        problems: dict[str, tuple[int, int | None]] = {}
        for batch in self._reader:
            yield self._decoded(batch, problems)
        for detail, (count, offset) in problems.items():
            detail_text = f"{counted(count, 'record')} not decoded: {detail}"
            finding = Finding.of(FindingCode.VALUE_UNDECODABLE, None, offset, detail_text, self._path)
            if self._findings is not None:
                self._findings.append(finding)
            else:  # who selects other columns sees no reasons
                warnings.warn(str(finding), RuntimeWarning, stacklevel=2)

    def _decoded(self, batch: pa.RecordBatch, problems: dict[str, tuple[int, int | None]]) -> pa.RecordBatch:
        headers = headers_of(batch) if self._columns else None
        decoded_parts: dict[str, Decoded] = {}
        for part, column in self._columns.items():
            decoded_parts[part] = column.decode(batch.column(part), headers)
        arrays = [decoded_parts[name].values if name in decoded_parts else batch.column(name) for name in self._names]
        texts: dict[int, str] = {}
        for part, decoded in decoded_parts.items():
            if not decoded.problems:
                arrays += [decoded.schemas, pa.nulls(batch.num_rows, pa.binary())]
                continue
            lost: list[bytes | None] = [None] * batch.num_rows
            source = batch.column(part)
            for row, problem in decoded.problems.items():
                lost[row] = source[row].as_py()
                texts[row] = f"{texts[row]}; {problem}" if row in texts else problem
                count, first = problems.get(problem, (0, None))
                if count or len(problems) < _MOST_PROBLEMS:
                    problems[problem] = count + 1, _offset(batch, row) if first is None else first
            arrays += [decoded.schemas, pa.array(lost, pa.binary())]
        if decoded_parts:
            row_texts = [texts.get(row) for row in range(batch.num_rows)] if texts else None
            arrays.append(
                pa.nulls(batch.num_rows, pa.string()) if row_texts is None else pa.array(row_texts, pa.string())
            )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _offset(batch: pa.RecordBatch, row: int) -> int | None:
    found: int | None = batch.column("offset")[row].as_py() if "offset" in batch.schema.names else None
    return found


def headers_of(batch: pa.RecordBatch) -> Sequence[Sequence[Header]] | None:
    """Return the headers of each row; None if no row has headers."""
    column = batch.column("headers")
    if column.null_count == len(column):
        return None
    return [() if row is None else [Header(each["key"], each["value"]) for each in row] for row in column.to_pylist()]
