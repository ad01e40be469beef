"""Records of `__transaction_state` (`TransactionLogKey`, `TransactionLogValue`)."""

from __future__ import annotations

from kafkalog.cluster.layout.message import NEVER, Message, message

__all__ = ["VALUES"]

_KEY = message("TransactionLogKey", """
    transactional_id  string
    """, flexible=NEVER)  # fmt: skip

_VALUE = message("TransactionLogValue", """
    producer_id                            int64
    producer_epoch                         int16
    transaction_timeout_ms                 int32
    transaction_status                     int8
    transaction_partitions                 []struct?
        topic                              string
        partition_ids                      []int32
    transaction_last_update_timestamp_ms   int64
    transaction_start_timestamp_ms         int64
    previous_producer_id                   int64      1+ tag 0  = -1
    next_producer_id                       int64      1+ tag 1  = -1
    client_transaction_version             int16      1+ tag 2  = 0
    next_producer_epoch                    int16      1+ tag 3  = -1
    """, versions=1, flexible=1)  # fmt: skip

VALUES: dict[int, tuple[str, Message, tuple[Message, ...]]] = {0: ("TransactionLog", _KEY, (_VALUE,))}
"""Key type -> name, key layout, value layouts."""
