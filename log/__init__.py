"""Log directories: find, open and read them as a consumer would, without a broker and without trusting a byte."""

from typing import TYPE_CHECKING

if __name__ != "kafkalog.log":
    raise ImportError("this folder is kafkalog.log; import that name")

from kafkalog.codec.lazily import lazily

if TYPE_CHECKING:
    from kafkalog.log.directories.directory import LogDir, open_log_dir
    from kafkalog.log.directories.inventory import Inventory, open_all
    from kafkalog.log.directories.partition import OffsetAndTimestamp, Partition, open_partition, open_segment
    from kafkalog.log.disk.files import FileSource, read_small
    from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS
    from kafkalog.log.reading.records import RecordReader
    from kafkalog.log.reading.transactions import Transactions
    from kafkalog.log.walk.batches import BatchReader
    from kafkalog.log.walk.segment import Segment
    from kafkalog.log.writing.config import LogConfig
    from kafkalog.log.writing.incoming import NewRecord
    from kafkalog.log.writing.writer import Log

_HOMES = {
    "writing.config": ("LogConfig",),
    "reading.consumer_view": ("ISOLATION_LEVELS",),
    "directories.directory": (
        "LogDir",
        "open_log_dir",
    ),
    "disk.files": (
        "FileSource",
        "read_small",
    ),
    "writing.incoming": ("NewRecord",),
    "directories.inventory": (
        "Inventory",
        "open_all",
    ),
    "directories.partition": (
        "OffsetAndTimestamp",
        "Partition",
        "open_partition",
        "open_segment",
    ),
    "reading.records": ("RecordReader",),
    "walk.segment": ("Segment",),
    "reading.transactions": ("Transactions",),
    "walk.batches": ("BatchReader",),
    "writing.writer": ("Log",),
}
"""Module -> names that are imported when somebody asks for them: who reads needs nothing that writes."""

__all__ = [
    "ISOLATION_LEVELS",
    "BatchReader",
    "FileSource",
    "Inventory",
    "Log",
    "LogConfig",
    "LogDir",
    "NewRecord",
    "OffsetAndTimestamp",
    "Partition",
    "RecordReader",
    "Segment",
    "Transactions",
    "open_all",
    "open_log_dir",
    "open_partition",
    "open_segment",
    "read_small",
]

__getattr__ = lazily(__name__, _HOMES)
