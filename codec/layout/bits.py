"""Give names to the bits of a number, by a Construct adapter over its field. `derive` uses the field below the adapter,
so struct formats, dtypes and opcodes do not depend on names. Bits without a name are kept under `UNNAMED`, so that bits
of a later Kafka are preserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from construct import Adapter, BytesInteger, Container, FormatField, IntegerError
from msgspec import Struct

__all__ = ["UNNAMED", "Bit", "Bits"]

UNNAMED = "unnamed"
"""Key for the bits without a name, present if one of them is set."""


class Bit(Struct, frozen=True):
    """A named group of bits: its lowest bit, the number of bits, and their meaning."""

    name: str
    lowest: int
    width: int
    doc: str

    @property
    def mask(self) -> int:
        """Number with exactly these bits set."""
        return ((1 << self.width) - 1) << self.lowest


class Bits(Adapter):  # type: ignore[misc]
    """Integer field whose bits have names. It is parsed to a container, and built from a container or a number."""

    def __init__(self, field: FormatField | BytesInteger, *bits: Bit) -> None:
        super().__init__(field)
        self.bits = bits
        self._modulus = 1 << 8 * field.length
        self._is_signed = isinstance(field, FormatField) and field.fmtstr[-1].islower()

    @property
    def known(self) -> int:
        """Number with all named bits set."""
        return sum(bit.mask for bit in self.bits)

    def bit(self, name: str) -> Bit:
        """Return the group of bits of this name. Raises `KeyError` for an unknown name."""
        for bit in self.bits:
            if bit.name == name:
                return bit
        raise KeyError(name)

    def mask(self, name: str) -> int:
        """Return the number with exactly the bits of this name set. Raises `KeyError` for an unknown name."""
        return self.bit(name).mask

    def named(self, number: int) -> Container:
        """Return a container with the value of each name's bits. The other bits are under `UNNAMED` if any of them is
        set.
        """
        values = Container({bit.name: (number & bit.mask) >> bit.lowest for bit in self.bits})
        unnamed = number % self._modulus & ~self.known
        return Container(values, **{UNNAMED: unnamed}) if unnamed else values

    def number(self, values: Mapping[str, Any] | int) -> int:
        """Return the number for named bits. Omitted names are zero, and `UNNAMED` has the value of the bits without a
        name. The result is negative if the field is signed and its highest bit is set. Raises `ValueError` for an
        unknown name, and for a value that does not fit into the bits of its name. If `values` is a number, it is
        returned unchecked.
        """
        if isinstance(values, int):
            return values
        unknown = values.keys() - {UNNAMED, *(bit.name for bit in self.bits)}
        if unknown:
            raise ValueError(f"no bits are called {', '.join(sorted(unknown))}")
        number = int(values.get(UNNAMED, 0))
        if not 0 <= number < self._modulus or number & self.known:
            raise ValueError(f"{number} is not a number of bits without a name")
        for bit in self.bits:
            value = int(values.get(bit.name, 0))
            if not 0 <= value < 1 << bit.width:
                raise ValueError(f"{value} does not fit into the bits of {bit.name}")
            number |= value << bit.lowest
        return number - self._modulus if self._is_signed and number >= self._modulus >> 1 else number

    def _decode(self, obj: int, context: Container, path: str) -> Container:
        return self.named(obj)

    def _encode(self, obj: Mapping[str, Any] | int, context: Container, path: str) -> int:
        try:
            return self.number(obj)
        except (ValueError, TypeError, AttributeError) as error:
            raise IntegerError(str(error), path=path) from None
