"""Results of a fetch and of a multi-fetch as Kafka's implementation notes describe them, from 0.7 on.

Decided by `kafka.server.MessageSetSend` and `MultiMessageSetSend` of that time.
"""

from construct import Int16sb, Int32sb, Struct

__all__ = ["MESSAGE_SET_SEND", "MULTI_MESSAGE_SET_SEND"]

MESSAGE_SET_SEND = Struct(
    "total_length" / Int32sb * "bytes that follow this field: the error code and the messages",
    "error_code" / Int16sb * "0 none",
)

MULTI_MESSAGE_SET_SEND = Struct(
    "total_length" / Int32sb * "bytes that follow this field: the error code and every whole MessageSetSend",
    "error_code" / Int16sb * "0 none",
)
