"""Log directories: find, open and read them as a consumer would, without a broker and without trusting a byte."""

if __name__ != "kafkalog.log":
    raise ImportError("this folder is kafkalog.log; import that name")

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
from kafkalog.log.walk import BatchReader
from kafkalog.log.writer import Log

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
