"""Determine on the driver the types of decoded keys and values, from schemas and the first records of each topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.log.directories.inventory import open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.spark.decoded import NOTHING_DECODED, DecodedPart, DecodedParts, spark_type
from kafkalog.spark.discovery import expand_paths, partitions_to_read
from kafkalog.spark.options import JSON, PartFormat, ReadOptions
from kafkalog.values.column_schema import ColumnSchema
from kafkalog.values.decoding import ValueDecoder
from kafkalog.values.payloads import Framed
from kafkalog.values.registry import Schema, SchemaRegistry
from kafkalog.values.sources import find_schemas, read_schemas
from kafkalog.values.to_arrow import first_frames, messages_of, named_schema, subjects_of

__all__ = ["decided"]

_PARTITIONS_LOOKED_AT = 16
"""maximum number of partitions of a topic to search for a frame"""
_SHOWN = 3


def decided(options: ReadOptions) -> DecodedParts:
    """Return the keys and values to decode and their types according to the options; `NOTHING_DECODED` if no option
    asks for decoding. Reads schemas and the first records of each topic. Raises `UsageError` if no single type fits all
    data, or if a path, the schemas or a package is missing. Raises `FormatError` for an invalid file of schemas,
    `StorageError` if a file cannot be read.
    """
    if not options.formats:
        return NOTHING_DECODED
    registry = _registry(options)
    with needed("decoded columns", "values"):
        parts = _Deciding(options, registry).parts()
    return DecodedParts(parts, registry)


def _registry(options: ReadOptions) -> SchemaRegistry:
    if options.schemas is not None:
        return read_schemas(*expand_paths([options.schemas]), replica=options.replica)
    return find_schemas(expand_paths(options.paths), options.replica)


class _Deciding:
    def __init__(self, options: ReadOptions, registry: SchemaRegistry) -> None:
        self._options, self._decoder = options, ValueDecoder(registry)

    def parts(self) -> tuple[DecodedPart, ...]:
        return tuple(self._part(part_format) for part_format in self._options.formats)

    def _part(self, wanted: PartFormat) -> DecodedPart:
        from kafkalog.values.arrow_column import ColumnDecoder

        if wanted.format == JSON:
            return DecodedPart(wanted.part, ColumnSchema(None), pa.string())
        named = None if wanted.schema is None else named_schema(self._decoder.registry, wanted.schema)
        frames = self._frames(wanted.part) if named is None or named.type == "PROTOBUF" else {}
        reader = named or self._reader(wanted.part, frames)
        path = self._path(wanted, reader, frames) if reader.type == "PROTOBUF" else b""
        kind = ColumnDecoder(self._decoder, None, wanted.part, ColumnSchema(reader, path)).type
        return DecodedPart(wanted.part, ColumnSchema(reader, path), spark_type(kind, nanoseconds=reader.type == "AVRO"))

    @cached_property
    def _topics(self) -> dict[str | None, list[Partition]]:
        """Return the partitions to read, by topic. The key None stands for a single segment file, which has no topic.
        Selected partitions that do not exist are left out. Raises `UsageError` if a path does not exist or has no Kafka
        data. Raises it also if a partition is in several directories and the option `replica` chooses none. Raises
        `StorageError` if a directory cannot be listed.
        """
        inventory = open_all(*self._options.in_both_tiers(expand_paths(self._options.paths)))
        topics: defaultdict[str | None, list[Partition]] = defaultdict(list)
        for partition in partitions_to_read(inventory, self._options, all_there=False):
            topics[partition.topic].append(partition)
        return topics

    def _frames(self, part: str) -> dict[str | None, list[Framed]]:
        """Return, by topic, the first frames (payloads with a schema id) of its keys or values (`part`). They come from
        the first partition that has frames in its first records, among the first `_PARTITIONS_LOOKED_AT` of the topic.
        Topics without frames are left out. Raises `UsageError` for wrong paths, `StorageError` if a file cannot be
        read.
        """
        by_topic = {}
        for topic, partitions in self._topics.items():
            looked_at = (first_frames(partition, part) for partition in partitions[:_PARTITIONS_LOOKED_AT])
            by_topic[topic] = next((frames for frames in looked_at if frames), [])
        return {topic: frames for topic, frames in by_topic.items() if frames}

    def _reader(self, part: str, frames: dict[str | None, list[Framed]]) -> Schema:
        """Return the latest schema of the subject to which the frames of `part` (`key` or `value`) belong. Frames whose
        schema is not in the registry do not count. Raises `UsageError` if no frame is left, or if frames belong to
        several subjects.
        """
        registry = self._decoder.registry
        of = {topic: subjects_of(registry, topic, part, payloads) for topic, payloads in frames.items()}
        subjects = sorted({subject for subjects_of_topic in of.values() for subject in subjects_of_topic})
        if len(subjects) == 1 and (schema := registry.latest(subjects[0])) is not None:
            return schema
        if subjects:
            raise UsageError(
                f"the {part}s of {_listed(sorted(str(topic) for topic, names in of.items() if names))} have schemas of "
                f"{len(subjects)} subjects, {_listed(subjects)}, and so no one type: {part}Schema names one of them as "
                f"the type, subscribe chooses topics, and {part}Format=json gives every {part} as JSON text"
            )
        known = "and no schemas are there" if not registry.schemas else f"of the {len(registry.schemas)} that are there"
        raise UsageError(
            f"the first {part}s of what is read name no schema {known}: schemas says where these are, {part}Schema "
            f"names the one to read with, and {part}Format=json gives {part}s as JSON text"
        )

    def _path(self, wanted: PartFormat, reader: Schema, frames: dict[str | None, list[Framed]]) -> bytes:
        """Return bytes that begin with the encoded path, within the Protobuf schema `reader`, of the message type that
        the frames use. Empty bytes, which mean the schema's first type, if no frame of its subject can be decoded.
        Raises `UsageError` if the frames use several types, or if a package is missing.
        """
        paths: dict[str, bytes] = {}
        for topic, payloads in frames.items():
            paths |= messages_of(self._decoder, payloads, topic, wanted.part, reader)
        if len(paths) > 1:
            raise UsageError(
                f"the {wanted.part}s are messages {_listed(sorted(paths))} of subject {reader.subject!r}, and so "
                f"of no one type: {wanted.part}Format=json gives every {wanted.part} as JSON text"
            )
        return next(iter(paths.values()), b"")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
