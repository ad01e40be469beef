"""Values as users have them, from a seed, no two stretches alike: text, JSON events, Avro-like binary, random bytes."""

from __future__ import annotations

import random
import string
import struct
from collections.abc import Callable, Iterator

import numpy as np

WORDS = 512
_A_STRETCH = 1 << 16
_DOUBLE = struct.Struct("<d")
_ACTIONS = ("view", "click", "purchase", "refund", "login", "logout", "search", "share")
_NEVER_ENDING = 1 << 62


def _vocabulary(source: np.random.Generator) -> list[bytes]:
    letters = np.frombuffer(string.ascii_lowercase.encode(), dtype=np.uint8)
    return [bytes(source.choice(letters, size=int(source.integers(2, 11)))) for _ in range(WORDS)]


def _text(source: np.random.Generator, size: int) -> Iterator[bytes]:
    words = _vocabulary(source)
    kept = b""
    while True:
        stretch = kept + b" ".join([words[number] for number in source.integers(0, WORDS, _A_STRETCH)]) + b" "
        whole = len(stretch) // size * size
        for position in range(0, whole, size):
            yield stretch[position : position + size]
        kept = stretch[whole:]


def _random_bytes(source: np.random.Generator, size: int) -> Iterator[bytes]:
    many = max(1, _A_STRETCH // size)
    while True:
        stretch = source.bytes(many * size)
        for position in range(0, many * size, size):
            yield stretch[position : position + size]


def _json_events(source: np.random.Generator, size: int) -> Iterator[bytes]:
    words = [word.decode() for word in _vocabulary(source)]
    one = random.Random(int(source.integers(_NEVER_ENDING)))
    at = 1_700_000_000_000
    while True:
        at += one.randrange(50)
        event = (
            f'{{"id":"{one.getrandbits(48):012x}","user":{one.randrange(10**7)},"action":"{one.choice(_ACTIONS)}",'
            f'"at":{at},"page":"/{one.choice(words)}"'
        )
        if len(event) + 20 < size:
            event += ',"items":['
            while len(event) + 60 < size:
                event += (
                    f'{{"sku":"{one.choice(words)}-{one.randrange(10**5)}","price":{one.randrange(10**5) / 100},'
                    f'"n":{one.randrange(1, 9)}}},'
                )
            event = event.rstrip(",") + "]"
        yield (event + "}").encode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _avro_like(source: np.random.Generator, size: int) -> Iterator[bytes]:
    """A magic byte, a schema's id, and records of longs, doubles, an enum and short strings, as Avro writes them."""
    words = _vocabulary(source)
    one = random.Random(int(source.integers(_NEVER_ENDING)))
    at = 1_700_000_000_000
    while True:
        at += one.randrange(50)
        parts = [b"\0\0\0\0", bytes([one.randrange(4)]), _varint(2 * at)]
        length = 5 + len(parts[-1])
        while length < size:
            word = one.choice(words)
            parts.append(
                _varint(2 * one.randrange(10**7)) + bytes([2 * one.randrange(8)]) + _DOUBLE.pack(one.gauss(100, 15))
                + bytes([2 * len(word)]) + word
            )  # fmt: skip
            length += len(parts[-1])
        yield b"".join(parts)[:size]


KINDS: dict[str, Callable[[np.random.Generator, int], Iterator[bytes]]] = {
    "text": _text, "json": _json_events, "avro": _avro_like, "random": _random_bytes,
}  # fmt: skip


def values(kind: str, size: int, seed: str) -> Iterator[bytes]:
    """An endless stream of values of about `size` bytes each."""
    return KINDS[kind](np.random.default_rng(list(seed.encode())), size)
