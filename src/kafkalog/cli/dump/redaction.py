"""`--redact`: show keys, values and header values as their size and a salted hash, which is equal for equal data."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.model import Header, Record

__all__ = ["Redacted", "Redaction", "redacted_findings", "size_of"]

_DIGEST_BYTES = 6
_SALT_BYTES = 16
_CHECKSUMS = re.compile("stored checksum 0x[0-9a-f]{8}, computed 0x[0-9a-f]{8}")


class Redacted(bytes):
    """Replacement for data that is not shown; `size` is the size of the data."""

    size: int


def size_of(data: bytes | None) -> int:
    """Return the number of bytes of a key or value, also if it was redacted; -1 for null."""
    if data is None:
        return -1
    return data.size if isinstance(data, Redacted) else len(data)


def redacted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in order, without the checksums in the texts of CRC_MISMATCH findings, because an unsalted
    checksum would allow guesses at the data. Other findings are unchanged.
    """
    return [
        replace(finding, detail=_CHECKSUMS.sub("the checksum does not match the bytes", finding.detail))
        if finding.code is FindingCode.CRC_MISMATCH
        else finding
        for finding in findings
    ]


class Redaction:
    """Replaces data by its size and a salted hash during one execution. The salt is random for each execution, so the
    hashes of two executions cannot be compared.
    """

    def __init__(self, salt: bytes | None = None) -> None:
        from hashlib import blake2b
        from os import urandom

        self._hash = blake2b(digest_size=_DIGEST_BYTES, key=urandom(_SALT_BYTES) if salt is None else salt)

    def data(self, data: bytes | None) -> bytes | None:
        """Return the text `[N bytes #HASH]`, as a `Redacted` bytes object whose `size` is N, the length of `data`. The
        hash is salted. None for None.
        """
        if data is None:
            return None
        digest = self._hash.copy()
        digest.update(data)
        shown = Redacted(f"[{len(data)} bytes #{digest.hexdigest()}]".encode())
        shown.size = len(data)
        return shown

    def record(self, record: Record) -> Record:
        """Return a copy of the record with key, value and header values replaced; header names are unchanged."""
        headers = [Header(key, self.data(value)) for key, value in record.headers]
        return replace(record, key=self.data(record.key), value=self.data(record.value), headers=headers)
