"""The names of this room, one line for each; `tests/support/lazy_names.py` makes the table in `__init__.py` of them."""

from kafkalog.log.directories.directory import LogDir as LogDir
from kafkalog.log.directories.directory import open_log_dir as open_log_dir
from kafkalog.log.directories.inventory import Inventory as Inventory
from kafkalog.log.directories.inventory import open_all as open_all
from kafkalog.log.directories.partition import OffsetAndTimestamp as OffsetAndTimestamp
from kafkalog.log.directories.partition import Partition as Partition
from kafkalog.log.directories.partition import open_partition as open_partition
from kafkalog.log.directories.partition import open_segment as open_segment
from kafkalog.log.disk.files import FileSource as FileSource
from kafkalog.log.disk.files import read_small as read_small
from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS as ISOLATION_LEVELS
from kafkalog.log.reading.records import RecordReader as RecordReader
from kafkalog.log.reading.transactions import Transactions as Transactions
from kafkalog.log.walk.batches import BatchReader as BatchReader
from kafkalog.log.walk.segment import Segment as Segment
from kafkalog.log.writing.config import LogConfig as LogConfig
from kafkalog.log.writing.incoming import NewRecord as NewRecord
from kafkalog.log.writing.writer import Log as Log
