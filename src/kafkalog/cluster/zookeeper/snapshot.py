"""A snapshot of ZooKeeper's tree (`FileSnap`, `SnapStream`): sessions, access lists, nodes and up to three checksums.

A snapshot is written while transactions continue, so it may contain effects of transactions after the one in its name.
Files may be compressed as a whole (`.gz`, `.snappy`). Every count is compared with the remaining bytes.
"""

from __future__ import annotations

import zlib

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.layout import zookeeper as layout
from kafkalog.cluster.records.messages import read
from kafkalog.cluster.zookeeper.tree import OPEN_ACL, Acl, Node, Tree
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression import decompress
from kafkalog.codec.layout.primitives import bytes_left
from kafkalog.codec.messages.leaves import Input
from kafkalog.codec.messages.message import Message
from kafkalog.codec.model import Codec
from kafkalog.log.disk.files import read_small

__all__ = ["Snapshot", "read_snapshot"]

_VERSION = 2
_OPEN_ACL_INDEX = -1
_END = "/"
_SMALLEST = {"session": 12, "access list": 12}
_COMPRESSED = {".gz": Codec.GZIP, ".snappy": Codec.SNAPPY}
_DIGEST_BYTES, _SEAL_BYTES, _ZXID_BYTES = 20, 13, 8


class Snapshot(Struct, frozen=True, kw_only=True):
    """Contents of one snapshot file."""

    path: str
    tree: Tree
    digest_zxid: int | None
    """last transaction whose effects may be in the snapshot; None if it does not say"""
    digest: int | None
    newest_zxid: int
    """largest zxid of any node"""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.stream = Input(data)

    def read(self, message: Message) -> dict[str, object]:
        return read(message, 0, self.stream)

    def count(self, what: str) -> int:
        start = self.stream.tell()
        raw = self.stream.read(4)
        count = int.from_bytes(raw, "big", signed=True)
        if len(raw) < 4 or not 0 <= count <= bytes_left(self.stream) // _SMALLEST[what]:
            raise FormatError(f"a count of {count} for {what}s cannot be", position=start)
        return count

    def seal(self) -> None:
        end = self.stream.tell()
        fields = self.read(layout.SEAL)
        if fields["mark"] != _END:
            raise FormatError("a seal is not where it should be", position=end)
        if fields["checksum"] != zlib.adler32(memoryview(self.data)[:end]):
            raise FormatError("the checksum does not match", position=end, code="zk_checksum_mismatch")


def _acl(fields: dict[str, object]) -> Acl:
    entries = fields["acl"] or []
    return tuple((entry["perms"], entry["scheme"], entry["id"]) for entry in entries)  # type: ignore[attr-defined]


def _nodes(reader: _Reader, acls: dict[int, Acl], tree: Tree) -> int:
    newest = 0
    while True:
        position = reader.stream.tell()
        path = reader.read(layout.PATH)["path"]
        if path == _END:
            return newest
        if not isinstance(path, str) or (path and not path.startswith("/")) or (path or "/") in tree.nodes:
            raise FormatError(f"{path!r} is not a path of a node, or occurs twice", position=position)
        fields = reader.read(layout.NODE)
        index = fields.pop("acl")
        acl = OPEN_ACL if index == _OPEN_ACL_INDEX else acls.get(index)  # type: ignore[call-overload]
        node = Node(acl=acl, **fields)  # type: ignore[arg-type]
        newest = max(newest, node.czxid, node.mzxid, node.pzxid)
        tree.put(path or "/", node)


def parse_snapshot(data: bytes, source: str) -> Snapshot:
    """Parse the decompressed bytes of a snapshot. The digest and its zxid are None if the snapshot has none of the
    current version.

    Raises `FormatError` for invalid bytes and for a missing or wrong checksum. `source` is the file's path, which
    becomes `path` of the result.
    """
    reader = _Reader(data)
    header = reader.read(layout.FILE_HEADER)
    if (header["magic"], header["version"]) != (layout.SNAPSHOT_MAGIC, _VERSION):
        raise FormatError("not a snapshot: magic or version is wrong", position=0)
    tree = Tree()
    for _ in range(reader.count("session")):
        session = reader.read(layout.SESSION)
        tree.sessions[int(session["id"])] = int(session["timeout"])  # type: ignore[call-overload]
    acls: dict[int, Acl] = {}
    for _ in range(reader.count("access list")):
        entry = reader.read(layout.ACL_ENTRY)
        acls[int(entry["index"])] = _acl(entry)  # type: ignore[call-overload]
    newest = _nodes(reader, acls, tree)
    reader.seal()
    digest = digest_zxid = None
    left = bytes_left(reader.stream)
    if left in (_DIGEST_BYTES + _SEAL_BYTES, _DIGEST_BYTES + _SEAL_BYTES + _ZXID_BYTES + _SEAL_BYTES):
        fields = reader.read(layout.SNAPSHOT_DIGEST)
        reader.seal()
        if fields["version"] == 2 and fields["zxid"]:
            digest_zxid, digest = int(fields["zxid"]), int(fields["digest"])  # type: ignore[call-overload]
    if bytes_left(reader.stream) == _ZXID_BYTES + _SEAL_BYTES:  # 3.9
        reader.stream.seek(_ZXID_BYTES, 1)
        reader.seal()
    if bytes_left(reader.stream):
        raise FormatError("bytes after the nodes that are not a digest with its seal", position=reader.stream.tell())
    return Snapshot(path=source, tree=tree, digest_zxid=digest_zxid, digest=digest, newest_zxid=newest)


def read_snapshot(path: str, limits: Limits = DEFAULT_LIMITS) -> Snapshot:
    """Read and parse a snapshot file, decompressed if its suffix says so.

    Raises `FormatError` for invalid bytes and for a missing or wrong checksum. Raises `LimitExceeded` if the file or
    its decompressed content is above the limit. Raises `StorageError` if it cannot be read.
    """
    data = read_small(path, limits.snapshot_bytes)
    for suffix, codec in _COMPRESSED.items():
        if path.endswith(suffix):
            data = bytes(decompress(codec, data, replace(limits, decompressed_batch_bytes=limits.snapshot_bytes)))
    return parse_snapshot(data, path)
