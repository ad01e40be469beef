"""Log directories: find, open and read them as a consumer would, without a broker and without trusting a byte."""

from typing import TYPE_CHECKING

if __name__ != "kafkalog.log":
    raise ImportError("this folder is kafkalog.log; import that name")

from kafkalog.codec.lazily import lazily

if TYPE_CHECKING:
    from kafkalog.log.config import LogConfig
    from kafkalog.log.consumer_view import ISOLATION_LEVELS
    from kafkalog.log.directory import LogDir, open_log_dir
    from kafkalog.log.files import FileSource, read_small
    from kafkalog.log.incoming import NewRecord
    from kafkalog.log.inventory import Inventory, open_all
    from kafkalog.log.partition import OffsetAndTimestamp, Partition, open_partition, open_segment
    from kafkalog.log.records import RecordReader
    from kafkalog.log.segment import Segment
    from kafkalog.log.transactions import Transactions
    from kafkalog.log.walk.batches import BatchReader
    from kafkalog.log.writer import Log

_HOMES = {
    "config": ("LogConfig",),
    "consumer_view": ("ISOLATION_LEVELS",),
    "directory": (
        "LogDir",
        "open_log_dir",
    ),
    "files": (
        "FileSource",
        "read_small",
    ),
    "incoming": ("NewRecord",),
    "inventory": (
        "Inventory",
        "open_all",
    ),
    "partition": (
        "OffsetAndTimestamp",
        "Partition",
        "open_partition",
        "open_segment",
    ),
    "records": ("RecordReader",),
    "segment": ("Segment",),
    "transactions": ("Transactions",),
    "walk.batches": ("BatchReader",),
    "writer": ("Log",),
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
