"""Names for the bits of a number, as a Construct adapter over the field that holds them.

`derive` sees through the adapter to the field below it, so a struct format, a dtype or an opcode is the same with names
as without.  Bits that have no name are kept under `UNNAMED`: what a later Kafka writes there survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from construct import Adapter, Container, FormatField, IntegerError

__all__ = ["UNNAMED", "Bit", "Bits"]

UNNAMED = "unnamed"
"""Key of the bits that no name covers, where one of them is set."""


class Bit(NamedTuple):
    """One named group of bits: its lowest bit, how many there are, and what they mean."""

    name: str
    lowest: int
    width: int
    doc: str

    @property
    def mask(self) -> int:
        """The number in which exactly these bits are set."""
        return ((1 << self.width) - 1) << self.lowest


class Bits(Adapter):  # type: ignore[misc]
    """An integer field whose bits have names; parsed to a container of them, built from one or from a number."""

    def __init__(self, field: FormatField, *bits: Bit) -> None:
        super().__init__(field)
        self.bits = bits
        self._modulus = 1 << 8 * field.length
        self._is_signed = field.fmtstr[-1].islower()

    @property
    def known(self) -> int:
        """The number in which every bit with a name is set."""
        return sum(bit.mask for bit in self.bits)

    def mask(self, name: str) -> int:
        """The number in which exactly the bits of that name are set; `KeyError` for an unknown name."""
        for bit in self.bits:
            if bit.name == name:
                return bit.mask
        raise KeyError(name)

    def named(self, number: int) -> Container:
        """Name -> value of its bits; `UNNAMED` -> the other bits, where they are not all zero."""
        values = Container({bit.name: (number & bit.mask) >> bit.lowest for bit in self.bits})
        unnamed = number % self._modulus & ~self.known
        return Container(values, **{UNNAMED: unnamed}) if unnamed else values

    def number(self, values: Mapping[str, Any] | int) -> int:
        """The number of named bits; names that are left out are zero.  `ValueError` where a value does not fit."""
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
