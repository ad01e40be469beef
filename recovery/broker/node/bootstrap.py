"""Predict the second part of a start: `bootstrap.checkpoint`, which every KRaft node reads whether it needs it or not.

Without the file a node uses the newest `metadata.version` of its release if the metadata is empty
(`BootstrapDirectory`). Its checksums are not verified (`BatchFileReader`).
"""

from __future__ import annotations

import os

from msgspec import Struct

from kafkalog.cluster.records.framed_records import FramedRecord
from kafkalog.codec.model import ControlType
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery.broker.node.answer import Part
from kafkalog.recovery.broker.node.ending import RUNTIME, StartEndsError, ends
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.reading import MetaBatch, ReaderError, metadata_batches
from kafkalog.recovery.broker.node.releases import Release
from kafkalog.recovery.broker.node.replay import unknown_metadata_version

__all__ = ["BOOTSTRAP_CHECKPOINT", "Bootstrap", "bootstrap_of_start"]

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
_KNOWN_CONTROL = frozenset({ControlType.LEADER_CHANGE, ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER})


class Bootstrap(Struct, frozen=True):
    """Records that a controller appends to empty metadata; without any it uses its release's defaults."""

    records: tuple[FramedRecord, ...]
    file: str | None

    @property
    def level(self) -> int:
        """The `metadata.version` that they set; 0 if none does."""
        levels = (record.decoded.fields["feature_level"] for record in self.records
                  if _is_metadata_version(record) and record.decoded is not None)  # fmt: skip
        return next(levels, 0)


def bootstrap_of_start(files: NodeFiles, release: Release) -> Bootstrap:
    """Read `bootstrap.checkpoint` in the metadata log directory as a start does, and return its records and path. If
    the file or the directory is missing, or the plan in `files` removes the file, there are no records and the path is
    None.

    Raises `StartEndsError` if the file is corrupt, or has no FeatureLevelRecord for `metadata.version`, as an empty
    file. Before 4.1 it is raised too if the file sets a `metadata.version` that the release does not know
    (`BootstrapMetadata.fromRecords`). Raises `StorageError` if the file cannot be read.
    """
    if files.metadata_root is None:
        return Bootstrap((), None)
    path = os.path.join(files.metadata_root, BOOTSTRAP_CHECKPOINT)
    planned = files.planned.get(files.metadata_root)
    if not os.path.exists(path) or (planned is not None and BOOTSTRAP_CHECKPOINT not in planned.files):
        return Bootstrap((), None)
    records: list[FramedRecord] = []
    with FileSource(path) as source:
        is_empty = source.size == 0
        try:
            for batch in metadata_batches(source, checks_crc=False, is_snapshot=False):
                if batch.is_control:
                    _refuse_unknown_control(batch, path)
                else:
                    records += batch.records
        except ReaderError as error:
            raise _end("corrupt", path, error.exception, error.message) from error
    if not any(_is_metadata_version(record) for record in records):
        message = (
            "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap "
            f"metadata file: {path}"
        )
        raise _end("empty" if is_empty else "cut", path, RUNTIME, message)
    for record in records if not release.at_least("4.1") else ():
        level = record.decoded.fields["feature_level"] if _is_metadata_version(record) and record.decoded else None
        unknown = None if level is None else unknown_metadata_version(level, release)
        if unknown is not None:
            raise _end("unknown_version", path, *unknown)
    return Bootstrap(tuple(records), path)


def _refuse_unknown_control(batch: MetaBatch, path: str) -> None:
    for number, record in enumerate(batch.records):
        if record.type not in _KNOWN_CONTROL or record.decoded is None:
            message = f"Unable to read control record at offset {batch.base_offset + number}"
            raise _end("corrupt", path, RUNTIME, message)


def _is_metadata_version(record: FramedRecord) -> bool:
    return (
        record.name == "FeatureLevelRecord"
        and record.decoded is not None
        and record.decoded.fields["name"] == "metadata.version"
    )


def _end(kind: str, path: str, exception: str, message: str) -> StartEndsError:
    return ends(Part.BOOTSTRAP, kind, path, exception, message, detail=message or "a record in it cannot be read")
