"""Report links and other entries that cannot be read and are in place of data."""

from __future__ import annotations

import os
import re

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.names import parse_partition_directory, parse_segment_file
from kafkalog.log.directories.inventory import Inventory
from kafkalog.spark.bounds import TopicPartition
from kafkalog.spark.options import Mode, ReadOptions
from kafkalog.spark.query_warnings import tell

__all__ = ["check_left_out", "is_wanted"]


def check_left_out(inventory: Inventory, options: ReadOptions) -> None:
    """Report the files and directories of selected partitions that cannot be read, such as a link with the name of a
    segment. With FAILFAST the first one raises `StorageError`; with other modes each one is a warning. An unfinished
    recovery is a warning with any mode and for any partition.
    """
    unread = codes_with(Trait.ENTRY_UNREAD)
    for finding in inventory.findings:
        if finding.code is FindingCode.RUN_UNFINISHED:
            tell(f"{finding.file}: {finding.detail}; what is there is half done")
        if finding.severity is not Severity.ERROR or finding.code not in unread or finding.file is None:
            continue
        file = parse_segment_file(os.path.basename(finding.file))
        if finding.code is FindingCode.UNREADABLE and (file is None or not file.is_live_log):
            continue
        in_log_dir = finding.code is FindingCode.FOREIGN_DIRECTORY
        directory = os.path.abspath(finding.file if in_log_dir else os.path.dirname(finding.file))
        name = parse_partition_directory(os.path.basename(directory))
        if name is None or not is_wanted((name.topic, name.partition), options):
            continue
        sentence = f"{finding.file} cannot be read: {finding.detail.removesuffix('; left out')}"
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
