"""Keys of segments, and decryption.

Each segment has its own key, stored in the manifest and encrypted with an RSA key pair (`RsaEncryptionProvider`: OAEP
with SHA3-512). Chunks and indexes are encrypted with AES-GCM, each preceded by its nonce (`AesEncryptionProvider`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.codec.common.limits import KIB
from kafkalog.log.disk.files import read_small
from kafkalog.tiers.aiven.manifest import WrappedKey

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ANY", "NONCE", "TAG", "PrivateKeys", "SegmentCipher"]

ANY = ""
"""the id of a private key for all pairs that have none of their own"""
NONCE, TAG = 12, 16
_LARGEST_FILE = 64 * KIB
_WHAT = "an encrypted remote tier"
_EXTRA = "tiered"
_KEY_BYTES = 32


class _Numbers(Struct, frozen=True, kw_only=True):
    """A private key: the modulus, the primes, and their exponents and coefficient (RFC 8017, 3.2)."""

    modulus: int
    p: int
    q: int
    exponent_p: int
    exponent_q: int
    coefficient: int

    def decrypted(self, value: int) -> int:
        """RSADP with the primes, in a third of the time of a single power (RFC 8017, 5.1.2)."""
        of_p, of_q = pow(value, self.exponent_p, self.p), pow(value, self.exponent_q, self.q)
        return of_q + self.q * ((of_p - of_q) * self.coefficient % self.p)


class PrivateKeys:
    """Private RSA keys by the ids of their key pairs. The PEM files are read when the object is created."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = dict(paths)
        self._numbers = {pair: self._read(path) for pair, path in paths.items()}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def __repr__(self) -> str:
        return f"PrivateKeys({', '.join(self._numbers)})"

    def _read(self, path: str) -> _Numbers:
        data = read_small(path, _LARGEST_FILE)
        with needed(_WHAT, _EXTRA):
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, RSAPrivateKey):
            raise UsageError(f"{path} is not a private RSA key as PEM without a password")
        found = key.private_numbers()
        return _Numbers(
            modulus=found.public_numbers.n,
            p=found.p,
            q=found.q,
            exponent_p=found.dmp1,
            exponent_q=found.dmq1,
            coefficient=found.iqmp,
        )

    def unwrap(self, key: WrappedKey, path: str) -> SegmentCipher:
        """Decrypt the key of the segment whose manifest is at `path`, and return the cipher for the segment's objects.
        The private key of the same key pair is used; if there is none, the private key with the id '' is used. Raises
        `StorageError` with `path` if neither exists. Raises it also if the private key does not decrypt the key,
        because it belongs to another pair or the manifest is damaged. Raises `UsageError` if the package cryptography
        is not installed.
        """
        pair = key.pair if key.pair in self._numbers else ANY
        if pair not in self._numbers:
            given = f"; one was given of {', '.join(self._numbers)}" if self._numbers else ""
            detail = f"the segment is encrypted for the pair of keys {key.pair!r:.80}, whose private key was not given"
            raise StorageError(None, detail + given, path)
        found = _without_padding(key.wrapped, self._numbers[pair])
        if found is None or len(found) != _KEY_BYTES:
            detail = (
                f"the private key in {self._paths[pair]} does not open the key of the segment, which is encrypted "
                f"for the pair {key.pair!r:.80}: it is of another pair, or the manifest is damaged"
            )
            raise StorageError(None, detail, path)
        return SegmentCipher(found, key.aad)


class SegmentCipher:
    """Decrypts the objects of a segment (AES-GCM). Raises `UsageError` if the package cryptography is not installed."""

    def __init__(self, key: bytes, aad: bytes) -> None:
        with needed(_WHAT, _EXTRA):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._decrypt: Callable[[bytes, bytes, bytes], bytes] = AESGCM(key).decrypt
        self._wrong = InvalidTag
        self._aad = aad

    def decrypt(self, data: bytes) -> bytes:
        """Return the plain bytes of a chunk or index. `data` is the 12-byte nonce, the encrypted bytes and the 16-byte
        tag. Raises `FormatError` if `data` is too short, damaged, or encrypted with another key.
        """
        if len(data) < NONCE + TAG:
            raise FormatError(f"{len(data)} bytes are too few to be encrypted")
        try:
            return self._decrypt(data[:NONCE], data[NONCE:], self._aad)
        except self._wrong:
            raise FormatError("it does not decrypt: it is damaged, or of another segment") from None


def _without_padding(wrapped: bytes, numbers: _Numbers) -> bytes | None:
    """Decrypt a value with RSA and remove its padding, OAEP with SHA3-512 (RFC 8017, 7.1.2), which the package
    cryptography does not support. Return the message; None if the size or the padding is invalid, as with a wrong key.
    """
    size = (numbers.modulus.bit_length() + 7) // 8
    hashed = hashlib.sha3_512(b"").digest()
    value = int.from_bytes(wrapped, "big")
    if len(wrapped) != size or value >= numbers.modulus or size < 2 * len(hashed) + 2:
        return None
    block = numbers.decrypted(value).to_bytes(size, "big")
    seed = _xor(block[1 : 1 + len(hashed)], _mask(block[1 + len(hashed) :], len(hashed)))
    data = _xor(block[1 + len(hashed) :], _mask(seed, size - len(hashed) - 1))
    zeros, one, message = data[len(hashed) :].partition(b"\x01")
    is_padded = block[0] == 0 and hmac.compare_digest(data[: len(hashed)], hashed) and one and not zeros.strip(b"\0")
    return message if is_padded else None


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1."""
    rounds = range(-(-size // hashlib.sha3_512().digest_size))
    return b"".join(hashlib.sha3_512(seed + each.to_bytes(4, "big")).digest() for each in rounds)[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")
