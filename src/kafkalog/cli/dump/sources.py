"""Open the paths of a `dump` command, and select partitions and other files in them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from kafkalog.cli.dump.forms import Form
from kafkalog.cli.dump.request import Dump
from kafkalog.cli.options.paths import log_directories, settings_in
from kafkalog.cli.options.selection import selected
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UnknownName, UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.jobs.undelete.listing import deleted
from kafkalog.log import Partition, open_all
from kafkalog.log.directories.deleted import deleted_partitions
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.selection import Selection
from kafkalog.log.directories.side_files import is_side_file
from kafkalog.log.disk.files import exists, real

__all__ = ["Sources"]


class Sources:
    """The partitions and other files at the paths of a command, restricted to the selected ones. Creating it raises
    `UsageError` if an index or other side file does not exist, or `--server-properties` is combined with paths,
    click's error if there is no path, and the errors of `Remote.beside`.
    """

    def __init__(self, request: Dump) -> None:
        paths = [*request.paths, *(path for text in request.files for path in text.split(",") if path)]
        if request.server_properties is not None:
            if paths:
                raise UsageError("--server-properties replaces PATH here: give one of them")
            paths = [*log_directories(request.server_properties, settings_in(request.server_properties))]
        if not paths and request.remote.uri is None:
            raise click.UsageError("Missing argument 'PATH...'.")
        self.side_files = [path for path in paths if is_side_file(path) and not os.path.isdir(path)]
        missing = [path for path in self.side_files if not exists(path)]
        if missing:
            raise UsageError(f"{missing[0]} does not exist")
        self._others = [path for path in paths if path not in self.side_files]
        self._others = [*request.remote.beside(self._others)]
        self.paths = paths
        self.partitions: list[Partition] = []
        self.in_order: list[str | Partition] = []
        """side files and partitions: as the paths were given for kafka-dump-log's lines, else the former first"""
        self.at_hand: Sequence[Partition] = ()
        self.findings: list[Finding] = []

    def open(self, request: Dump, form: Form) -> None:
        """Open the paths and set the attributes of this object. `partitions` are the chosen ones; with `--deleted` they
        are the deleted ones. `at_hand` are all readable partitions. `in_order` has side files (indexes, snapshots,
        checkpoints) first and then partitions; in kafka-dump-log's form it follows the order of the paths. Side files
        are not opened. `findings` get the findings of the paths; a path that cannot be read is one of them.

        Raises `UsageError` for a path without Kafka data, and if everything that was chosen is excluded. It is raised
        too if `--replica` does not exist, or if a chosen partition is in several directories and `--replica` does not
        choose one. Raises `UnknownName` if a chosen topic or partition is missing; the message says so if only deleted
        copies of it exist, or copies that recoveries keep. Raises `StorageError` if a file cannot be read that is
        needed to choose the longest copy or to find these copies.
        """
        if self._others:
            self._open(request)
        self.in_order = [*self.side_files, *self.partitions]
        if form is Form.KAFKA and self.side_files:
            places = {real(path): number for number, path in enumerate(self.paths)}
            self.in_order.sort(key=lambda each: _place(each if isinstance(each, str) else each.path, places))

    def _open(self, request: Dump) -> None:
        inventory = open_all(*self._others, tolerant=True)
        chosen = Selection.of(request.topics, [number for number in request.numbers if number >= 0], request.excluded)
        self.at_hand = inventory.all_readable(request.replica, chosen)
        partitions = deleted_partitions(inventory) if request.deleted else self.at_hand
        try:
            self.partitions = selected(chosen, partitions, inventory.all_unreadable)
        except UnknownName:
            gone = [each for each in deleted_partitions(inventory) if chosen.takes(each.topic, each.partition)]
            if not request.deleted and gone:
                names = ", ".join(dict.fromkeys(str(partition.name) for partition in gone))
                raise UnknownName(f"{names}: only what was deleted is there; --deleted prints it") from None
            if kept := _kept_by_recoveries(inventory, chosen):
                detail = "only recoveries keep it, in their quarantine; `kafkalog undelete` lists it"
                raise UnknownName(f"{', '.join(kept)}: {detail}") from None
            raise
        self.findings.extend(inventory.unreadable)
        self.findings.extend(finding for log_dir in inventory.log_dirs for finding in log_dir.findings)
        self.findings.extend(finding for partition in self.partitions for finding in partition.findings)


def _kept_by_recoveries(inventory: Inventory, chosen: Selection) -> list[str]:
    """Return the names of the chosen partitions that are in the quarantines of these log directories, each once. A log
    directory whose pointer file kafkalog did not write is skipped. Raises `StorageError` if a log directory, its
    quarantine or its log-start checkpoint cannot be read.
    """
    names: dict[str, None] = {}
    for log_dir in inventory.log_dirs:
        with suppress(RecoveryRefused):
            names |= {f"{each.topic}-{each.partition}": None for each in deleted(log_dir.path, on_unreadable=_pass_over)
                      if each.run_id is not None and chosen.takes(each.topic, each.partition)}  # fmt: skip
    return list(names)


def _pass_over(_path: str, _error: StorageError) -> None:
    """Ignore a directory that cannot be read."""


def _place(path: str, places: Mapping[str, int]) -> int:
    """Return the number of the nearest path in `places` that is `path` itself or a directory above it; the number of
    places if there is none.
    """
    below = real(path)
    while below not in places and below != os.path.dirname(below):
        below = os.path.dirname(below)
    return places.get(below, len(places))
