"""A file of ZooKeeper's transaction log, read entry by entry (`FileTxnLog`).

The checksum covers only the payload, not its length or the closing byte. A file may end anywhere: a server never
appends to an existing file after a start, so torn ends remain, even in the middle of the sequence of files.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from kafkalog.cluster.layout import zookeeper as layout
from kafkalog.cluster.records.messages import decode
from kafkalog.cluster.zookeeper.transaction import Transaction, parse_transaction
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.log.disk.files import FileSource

__all__ = ["MAX_ENTRY_BYTES", "LogFileReader"]

MAX_ENTRY_BYTES = 64 << 20
"""ZooKeeper's own limit is about 2 MiB (jute.maxbuffer), but it can be raised"""
_HEADER_BYTES = 16
_FRAME_BYTES = 12
_CLOSING = b"B"
_VERSION = 2
_SMALLEST = 32
_CHUNK = 1 << 20


class LogFileReader:
    """Iterator over the transactions of one file. It stops at damage, which is in `findings` afterwards. Raises only
    `StorageError`. `first_zxid` is the zxid in the file's name, which is compared with the first transaction.
    """

    def __init__(self, path: str, first_zxid: int | None = None) -> None:
        self.path = path
        self.findings: list[Finding] = []
        self.valid_bytes = 0
        self.last_zxid: int | None = None
        self._named = first_zxid

    def _found(self, code: FindingCode, position: int, detail: str, severity: Severity = Severity.ERROR) -> None:
        self.findings.append(Finding(code, severity, position, None, detail, self.path))

    def __iter__(self) -> Iterator[Transaction]:
        with FileSource(self.path) as source:
            if not self._header(source):
                return
            position = _HEADER_BYTES
            while True:
                self.valid_bytes = position
                payload = self._entry(source, position)
                if payload is None:
                    return
                try:
                    transaction = parse_transaction(payload)
                except FormatError as error:
                    self._found(FindingCode.ZK_LOG_CORRUPT, position, f"a transaction cannot be read: {error.message}")
                    return
                self._order(transaction, position)
                position += _FRAME_BYTES + len(payload) + len(_CLOSING)
                yield transaction

    def _header(self, source: FileSource) -> bool:
        data = source.read(0, _HEADER_BYTES)
        if len(data) < _HEADER_BYTES:
            detail = (
                f"{len(data)} bytes are less than a header; ZooKeeper does not start on it unless it is the last file"
            )
            self._found(FindingCode.ZK_LOG_TORN, 0, detail, Severity.WARNING)
            return False
        fields = decode(layout.FILE_HEADER, 0, data).fields
        if (fields["magic"], fields["version"]) != (layout.LOG_MAGIC, _VERSION):
            self._found(FindingCode.ZK_LOG_CORRUPT, 0, "not a transaction log: magic or version is wrong")
            return False
        return True

    def _entry(self, source: FileSource, position: int) -> bytes | None:
        """Read the payload of the entry at `position`; None if the entries end there or the entry is damaged.

        Damage, a torn end, and bytes after the last entry are added to `findings`.
        """
        frame = source.read(position, _FRAME_BYTES)
        if len(frame) < _FRAME_BYTES:
            if frame:  # padding never leaves so few bytes
                self._torn(position, "the file ends inside an entry")
            return None
        fields = decode(layout.TXN_FRAME, 0, frame).fields
        checksum, length = fields["checksum"], fields["length"]
        if length == 0:
            if checksum:
                self._found(
                    FindingCode.ZK_LOG_CORRUPT, position, "an entry of length 0; ZooKeeper reads no further here"
                )
            else:
                self._padding(source, position)
            return None
        if not _SMALLEST <= length <= MAX_ENTRY_BYTES:
            self._found(
                FindingCode.ZK_LOG_CORRUPT, position, f"an entry of {length} bytes; ZooKeeper does not start on it"
            )
            return None
        data = source.read(position + _FRAME_BYTES, length + len(_CLOSING))
        if len(data) < length + len(_CLOSING):
            self._torn(position, "the file ends inside an entry")
            return None
        payload = data[:length]
        if data[length:] != _CLOSING:
            self._torn(position, "an entry is not closed; ZooKeeper takes this for the end of the file")
            return None
        if zlib.adler32(payload) != checksum:
            detail = "the checksum does not match the transaction; ZooKeeper does not start on it"
            self._found(FindingCode.ZK_CHECKSUM_MISMATCH, position, detail)
            return None
        return payload

    def _torn(self, position: int, detail: str) -> None:
        self._found(FindingCode.ZK_LOG_TORN, position, detail, Severity.WARNING)

    def _padding(self, source: FileSource, position: int) -> None:
        offset = position
        while chunk := source.read(offset, _CHUNK):
            if chunk.count(0) != len(chunk):
                detail = "bytes after the end of the entries, which ZooKeeper never examines"
                self._found(FindingCode.ZK_LOG_CORRUPT, position, detail, Severity.WARNING)
                return
            offset += len(chunk)

    def _order(self, transaction: Transaction, position: int) -> None:
        if self.last_zxid is None:
            if self._named is not None and transaction.zxid != self._named:
                detail = f"the first transaction is 0x{transaction.zxid:x}, the file's name says 0x{self._named:x}"
                self._found(FindingCode.ZK_GAP, position, detail, Severity.WARNING)
        elif transaction.zxid <= self.last_zxid:
            detail = f"transaction 0x{transaction.zxid:x} after 0x{self.last_zxid:x}"
            self._found(FindingCode.ZK_LOG_CORRUPT, position, detail, Severity.WARNING)
        elif transaction.zxid != self.last_zxid + 1 and transaction.zxid >> 32 == self.last_zxid >> 32:
            detail = f"0x{self.last_zxid:x} is followed by 0x{transaction.zxid:x}: what lies between is lost"
            self._found(FindingCode.ZK_GAP, position, detail, Severity.WARNING)
        self.last_zxid = transaction.zxid
