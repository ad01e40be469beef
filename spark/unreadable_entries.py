"""Report links and other entries that cannot be read and are in place of data."""

from __future__ import annotations

import re

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.left_out import leaves_out_records, partition_of, why_left_out
from kafkalog.spark.bounds import TopicPartition
from kafkalog.spark.options import Mode, ReadOptions
from kafkalog.spark.query_warnings import tell

__all__ = ["check_left_out", "is_wanted"]


def check_left_out(inventory: Inventory, options: ReadOptions) -> None:
    """Report the files and directories of selected partitions that cannot be read, such as a link with the name of a
    segment. With FAILFAST the first one raises `StorageError`; with other modes each one is a warning. An unfinished
    recovery is a warning with any mode and for any partition.
    """
    for finding in inventory.findings:
        if finding.code is FindingCode.RUN_UNFINISHED:
            tell(f"{finding.file}: {finding.detail}; what is there is half done")
        name = partition_of(finding) if leaves_out_records(finding) else None
        if name is None or not is_wanted((name.topic, name.partition), options):
            continue
        sentence = why_left_out(finding)
        if options.mode is Mode.FAILFAST:
            raise StorageError(f"{sentence}; put the real one there, or leave it out with mode=DROPMALFORMED")
        tell(f"{sentence}; it is left out")


def is_wanted(key: TopicPartition, options: ReadOptions) -> bool:
    """Return whether the options assign, subscribe or subscribePattern select a partition; True if none of them is
    set.
    """
    if options.assign is not None:
        return key in options.assign
    if options.subscribe is not None:
        return key[0] in options.subscribe
    return options.subscribe_pattern is None or re.fullmatch(options.subscribe_pattern, key[0]) is not None
