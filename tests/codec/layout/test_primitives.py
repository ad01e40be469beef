"""Checksums, variable-length integers and UUID texts: the values that Kafka's own tests assert."""

from __future__ import annotations

import pytest

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.files.text import decode_uuid, encode_uuid
from kafkalog.codec.layout.primitives import LayoutError, UnsignedVarint, Varint, Varlong
from kafkalog.codec.parsing.reference import build, parse
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.decoding import read_varint

VARINTS = {
    0: "00", -1: "01", 1: "02", 63: "7e", -64: "7f", 64: "80 01", -65: "81 01",
    8191: "fe 7f", -8192: "ff 7f", 8192: "80 80 01", -8193: "81 80 01",
    134217728: "80 80 80 80 01", 2**31 - 1: "fe ff ff ff 0f", -(2**31): "ff ff ff ff 0f",
}  # fmt: skip
VARLONGS = VARINTS | {
    17179869184: "80 80 80 80 80 01",
    2**63 - 1: "fe ff ff ff ff ff ff ff ff 01",
    -(2**63): "ff ff ff ff ff ff ff ff ff 01",
}
del VARLONGS[2**31 - 1], VARLONGS[-(2**31)]  # the same bytes, but as 64 bits


@pytest.mark.parametrize(
    ("data", "checksum"),
    [(b"123456789", 0xE3069283), (b"Some String", 608512271), (bytes(4), 0x48674BC7), (b"", 0)],
)
def test_crc32c(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum
    assert crc32c(data[3:], crc32c(data[:3])) == checksum
    assert crc32c(memoryview(data)) == checksum


@pytest.mark.parametrize(("value", "text"), VARINTS.items())
def test_varints(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert Varint.build(value) == data
    assert Varint.parse(data) == value
    assert read_varint(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("value", "text"), VARLONGS.items())
def test_varlongs(value: int, text: str) -> None:
    assert Varlong.build(value) == bytes.fromhex(text)
    assert Varlong.parse(bytes.fromhex(text)) == value


def test_unsigned_varint_of_all_ones() -> None:
    assert UnsignedVarint.build(2**32 - 1) == bytes.fromhex("ffffffff0f")
    assert UnsignedVarint.parse(bytes.fromhex("ffffffff0f")) == 2**32 - 1


@pytest.mark.parametrize(("leaf", "text"), [(Varint, "ff" * 5 + "01"), (Varlong, "ff" * 10 + "01")])
def test_a_varint_that_goes_on_is_an_error(leaf: object, text: str) -> None:
    with pytest.raises(FormatError, match="longer than"):
        parse(leaf, bytes.fromhex(text))


@pytest.mark.parametrize("text", ["", "80", "ffffffff"])
def test_a_varint_that_ends_early_is_an_error(text: str) -> None:
    with pytest.raises(FormatError, match="end inside"):
        parse(Varint, bytes.fromhex(text))


def test_surplus_bits_are_dropped_as_kafka_does() -> None:
    assert Varint.parse(bytes.fromhex("feffffff7f")) == 2**31 - 1
    assert read_varint(bytes.fromhex("feffffff7f"), 0, 5) == (2**31 - 1, 5)
    assert Varlong.parse(bytes.fromhex("fe" + "ff" * 8 + "7f")) == 2**63 - 1


def test_longer_forms_than_needed_are_accepted() -> None:
    assert Varint.parse(bytes.fromhex("8200")) == 1
    assert read_varint(bytes.fromhex("8200"), 0, 2) == (1, 2)


@pytest.mark.parametrize(
    ("leaf", "value"), [(Varint, 2**31), (Varint, -(2**31) - 1), (Varlong, 2**63), (UnsignedVarint, -1)]
)
def test_what_does_not_fit_is_not_written(leaf: object, value: int) -> None:
    with pytest.raises(FormatError, match="does not fit"):
        build(leaf, value, "number")  # type: ignore[arg-type]


def test_layout_errors_carry_code_and_position() -> None:
    with pytest.raises(LayoutError) as caught:
        Varint.parse(b"\x80" * 5)
    assert (caught.value.code, caught.value.position) == ("varint_too_long", 0)


def test_uuid_text() -> None:
    value = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
    assert encode_uuid(value) == "AAAAAAAAAAEAAAAAAAAAAg"
    assert decode_uuid("AAAAAAAAAAEAAAAAAAAAAg") == value


@pytest.mark.parametrize(
    "text", ["", "AAAAAAAAAAEAAAAAAAAAA", "AAAAAAAAAAEAAAAAAAAAAgAA", "AAAAAAAAAAEAAAAAAAAA+g", "é"]
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        decode_uuid(text)
