"""Layouts of ZooKeeper's transaction log and snapshots: the records of `zookeeper.jute` and the frames around them.

Numbers are big-endian. `FileTxnLog` puts checksum and length before a transaction and one closing byte after it.
`FileSnap` writes counts that cannot be null, and seals, which are a checksum and the string "/".
"""

from __future__ import annotations

from kafkalog.codec.messages.message import Message, jute

__all__ = [
    "ACL_ENTRY",
    "BODIES",
    "CREATE_V0",
    "DIGEST",
    "FILE_HEADER",
    "LOG_MAGIC",
    "NODE",
    "PATH",
    "SEAL",
    "SESSION",
    "SNAPSHOT_DIGEST",
    "SNAPSHOT_MAGIC",
    "TXN_FRAME",
    "TXN_HEADER",
]

LOG_MAGIC = int.from_bytes(b"ZKLG", "big")
SNAPSHOT_MAGIC = int.from_bytes(b"ZKSN", "big")

FILE_HEADER = jute("FileHeader", {"magic": "int32", "version": "int32", "dbid": "int64"})
TXN_FRAME = jute("TxnFrame", {"checksum": "int64", "length": "int32"})
TXN_HEADER = jute(
    "TxnHeader", {"client_id": "int64", "cxid": "int32", "zxid": "int64", "time": "int64", "type": "int32"}
)
DIGEST = jute("TxnDigest", {"version": "int32", "tree_digest": "int64"})

_PATH = {"path": "string"}
_ACL = {"acl": [{"perms": "int32", "scheme": "string", "id": "string"}]}
_CREATED = {**_PATH, "data": "bytes", **_ACL}
_DATA = {**_PATH, "data": "bytes", "version": "int32"}

_CREATE = jute("CreateTxn", {**_CREATED, "ephemeral": "bool", "parent_c_version": "int32"})
CREATE_V0 = jute("CreateTxnV0", {**_CREATED, "ephemeral": "bool"})
"""3.3 and older: no parent_c_version"""

BODIES: dict[int, Message] = {
    1: _CREATE,
    15: _CREATE,
    19: jute("CreateContainerTxn", {**_CREATED, "parent_c_version": "int32"}),
    21: jute("CreateTTLTxn", {**_CREATED, "parent_c_version": "int32", "ttl": "int64"}),
    2: jute("DeleteTxn", _PATH),
    20: jute("DeleteTxn", _PATH),
    5: jute("SetDataTxn", _DATA),
    16: jute("SetDataTxn", _DATA),
    7: jute("SetACLTxn", {**_PATH, **_ACL, "version": "int32"}),
    13: jute("CheckVersionTxn", {**_PATH, "version": "int32"}),
    14: jute("MultiTxn", {"txns": [{"type": "int32", "data": "bytes"}]}),
    -10: jute("CreateSessionTxn", {"time_out": "int32"}),
    -11: jute("CloseSessionTxn", {"paths_to_delete": ["string"]}),
    -1: jute("ErrorTxn", {"err": "int32"}),
}
"""Type of a transaction (`ZooDefs.OpCode`) -> its body."""

SESSION = jute("Session", {"id": "int64", "timeout": "int32"})
ACL_ENTRY = jute("AclEntry", {"index": "int64", **_ACL})
PATH = jute("Path", _PATH)
NODE = jute("DataNode", {
    "data": "bytes",
    "acl": "int64",
    "czxid": "int64",
    "mzxid": "int64",
    "ctime": "int64",
    "mtime": "int64",
    "version": "int32",
    "cversion": "int32",
    "aversion": "int32",
    "ephemeral_owner": "int64",
    "pzxid": "int64",
})  # fmt: skip
SEAL = jute("Seal", {"checksum": "int64", "mark": "string"})
SNAPSHOT_DIGEST = jute("ZxidDigest", {"zxid": "int64", "version": "int32", "digest": "int64"})
