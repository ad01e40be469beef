"""Find, open and read log directories as a consumer would, without a broker and without trusting a byte.

Names are imported when first used, so that reading loads nothing for writing. `tests/support/lazy_names.py` writes
their table from the stub beside this file.
"""

from kafkalog.codec.common.lazily import lazily

_NAMES = {
    ".directories.directory": ["LogDir", "open_log_dir"],
    ".directories.inventory": ["Inventory", "open_all"],
    ".directories.partition": ["OffsetAndTimestamp", "Partition", "open_partition", "open_segment"],
    ".disk.files": ["FileSource", "read_small"],
    ".reading.consumer_view": ["ISOLATION_LEVELS"],
    ".reading.records": ["RecordReader"],
    ".reading.transactions": ["Transactions"],
    ".walk.batches": ["BatchReader"],
    ".walk.segment": ["Segment"],
    ".writing.config": ["LogConfig"],
    ".writing.incoming": ["NewRecord"],
    ".writing.writer": ["Log"],
}

__all__, __getattr__ = lazily(__name__, _NAMES)
