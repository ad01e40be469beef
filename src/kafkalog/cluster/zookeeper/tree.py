"""ZooKeeper's tree of nodes, and the effect of each transaction on it (`DataTree`).

Numbers are as ZooKeeper stores them; a client sees `Node.client_cversion` instead of `cversion`. The digest is computed
as in `DigestCalculator`: a wrapping sum over all nodes, updated with every change.
"""

from __future__ import annotations

import zlib
from struct import Struct

import msgspec

from kafkalog.cluster.zookeeper.transaction import Operation, Transaction, TransactionType

__all__ = ["CONTAINER_OWNER", "Acl", "Node", "Tree"]

Acl = tuple[tuple[int, str, str], ...]
"""(permission bits, scheme, id)"""

OPEN_ACL: Acl = ((31, "world", "anyone"),)
CONTAINER_OWNER = -(1 << 63)
_TTL_OWNER = 0xFF << 56
_DIGESTED = Struct(">qqqqqiiiq")
_MASK = (1 << 64) - 1
_SYSTEM = "/zookeeper/"


class Node(msgspec.Struct):
    """One znode with its stat."""

    data: bytes | None
    acl: Acl | None
    """None if the snapshot does not contain the access list that the node refers to"""
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime: int = 0
    mtime: int = 0
    version: int = 0
    cversion: int = 0
    """as stored: number of children that were ever created"""
    aversion: int = 0
    ephemeral_owner: int = 0
    children: set[str] = msgspec.field(default_factory=set)

    @property
    def client_cversion(self) -> int:
        """Version as a client sees it: creations and deletions."""
        return 2 * self.cversion - len(self.children)

    @property
    def session(self) -> int | None:
        """Session of an ephemeral node; None for all others. The owner of a TTL node is returned too, because it looks
        like a session of server 255.
        """
        return self.ephemeral_owner if self.ephemeral_owner not in (0, CONTAINER_OWNER) else None


def _as_signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def parent_of(path: str) -> str:
    """Path of the parent; "/" for the children of the root."""
    return path[: path.rindex("/")] or "/"


class Tree:
    """ZooKeeper's nodes by path, with sessions and the digest; the root is "/"."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, int] = {}
        """session id -> timeout in ms"""
        self._digest = 0
        self._ephemerals: dict[int, set[str]] = {}

    @classmethod
    def empty(cls) -> Tree:
        """Return the tree of a server that starts without a snapshot (3.4 and older)."""
        tree = cls()
        for path in ("/", "/zookeeper", "/zookeeper/quota"):
            tree.put(path, Node(b"", OPEN_ACL))
        return tree

    @property
    def digest(self) -> int:
        """Digest of the whole tree, as a signed 64-bit number."""
        return _as_signed(self._digest)

    def put(self, path: str, node: Node) -> None:
        """Store a new node at `path`, where there must be none yet. Add its digest, and register it with its parent and
        with the session that owns it.

        Neither the node's stat nor its parent's is changed; a missing parent is ignored.
        """
        self.nodes[path] = node
        self._digest += _node_digest(path, node)
        if node.session is not None:
            self._ephemerals.setdefault(node.session, set()).add(path)
        if path != "/":
            parent = self.nodes.get(parent_of(path))
            if parent is not None:
                parent.children.add(path[path.rindex("/") + 1 :])

    def _changed(self, path: str, node: Node, before: int) -> None:
        self._digest += _node_digest(path, node) - before

    def apply(self, transaction: Transaction) -> None:
        """Apply a transaction to nodes and sessions. A failed transaction has no effect. A change of a node that does
        not exist is ignored, and so is a new node without a parent. If a new node already exists, only its ACL is
        replaced.
        """
        if transaction.failed:
            return
        if transaction.type is TransactionType.CREATE_SESSION:
            self.sessions[transaction.session] = int(transaction.operations[0].fields["time_out"])
            return
        for operation in transaction.operations:
            self._apply(operation, transaction)

    def _apply(self, operation: Operation, transaction: Transaction) -> None:
        kind, path = operation.type, operation.path
        if kind is TransactionType.CLOSE_SESSION:
            self._close(transaction, operation.fields["paths_to_delete"])
        elif path is None or not path.startswith("/"):
            return
        elif kind in (TransactionType.DELETE, TransactionType.DELETE_CONTAINER):
            self._delete(path, transaction.zxid)
        elif kind in (TransactionType.SET_DATA, TransactionType.RECONFIG):
            self._set_data(path, operation, transaction)
        elif kind is TransactionType.SET_ACL:
            node = self.nodes.get(path)
            if node is not None:
                before = _node_digest(path, node)
                node.acl, node.aversion = _acl(operation), operation.fields["version"]
                self._changed(path, node, before)
        elif kind is not TransactionType.CHECK:
            self._create(path, operation, transaction)

    def _create(self, path: str, operation: Operation, transaction: Transaction) -> None:
        fields = operation.fields
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return
        existing = self.nodes.get(path)
        counted = operation.type is TransactionType.CREATE or existing is None
        if counted:
            cversion = fields["parent_c_version"]
            cversion = parent.cversion + 1 if cversion == -1 else cversion
            if cversion > parent.cversion:
                before = _node_digest(parent_path, parent)
                parent.cversion, parent.pzxid = cversion, transaction.zxid
                self._changed(parent_path, parent, before)
        if existing is not None:  # replayed over a snapshot that has it already
            existing.acl = _acl(operation)
            return
        owner = 0
        if operation.type is TransactionType.CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif operation.type is TransactionType.CREATE_TTL:
            owner = _as_signed(_TTL_OWNER | fields["ttl"])
        elif fields.get("ephemeral"):
            owner = transaction.session
        zxid, time = transaction.zxid, transaction.time
        self.put(path, Node(fields["data"], _acl(operation), zxid, zxid, zxid, time, time, ephemeral_owner=owner))

    def _set_data(self, path: str, operation: Operation, transaction: Transaction) -> None:
        node = self.nodes.get(path)
        if node is None:
            return
        before = _node_digest(path, node)
        node.data, node.version = operation.fields["data"], operation.fields["version"]
        node.mzxid, node.mtime = transaction.zxid, transaction.time
        self._changed(path, node, before)

    def _delete(self, path: str, zxid: int) -> None:
        node = self.nodes.get(path)
        if node is None or path == "/":
            return
        del self.nodes[path]
        self._digest -= _node_digest(path, node)
        if node.session is not None:
            self._ephemerals.get(node.session, set()).discard(path)
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is not None:
            before = _node_digest(parent_path, parent)
            parent.children.discard(path[path.rindex("/") + 1 :])
            parent.pzxid = max(parent.pzxid, zxid)
            self._changed(parent_path, parent, before)

    def _close(self, transaction: Transaction, paths: list[str]) -> None:
        self.sessions.pop(transaction.session, None)
        left = sorted(self._ephemerals.pop(transaction.session, ()))
        for path in dict.fromkeys([*paths, *left]):
            self._delete(path, transaction.zxid)


def _acl(operation: Operation) -> Acl:
    return tuple((field["perms"], field["scheme"], field["id"]) for field in operation.fields["acl"] or ())


def _node_digest(path: str, node: Node) -> int:
    if path.startswith(_SYSTEM):
        return 0
    crc = zlib.crc32(b"" if path == "/" else path.encode("utf-8", "surrogatepass"))
    crc = zlib.crc32(node.data or b"", crc)
    return zlib.crc32(
        _DIGESTED.pack(
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
        ),
        crc,
    )
