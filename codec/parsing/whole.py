"""Declarations of whole structures: a header, a body whose size is in the header, and the checksum over the bytes after
it. Headers and fields are declared in `layout`; here they are combined as in a file (`DefaultRecordBatch`,
`LegacyRecord`, `ProducerStateManager`, `MessageSetSend`). A parsed structure has the stored values: deltas, relative
offsets, and the compressed bytes beside their contents. When it is built again, it has the same bytes: lengths, counts
and checksums are computed, and unchanged contents keep their compressed bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from construct import Construct, Container, ListContainer, Struct

from kafkalog.codec import derive
from kafkalog.codec.layout import (
    fetch_result,
    legacy_message,
    offset_index,
    producer_snapshot,
    record_batch,
    time_index,
    transaction_index,
)
from kafkalog.codec.layout.attributes import ATTRIBUTES_V0, ATTRIBUTES_V1, ATTRIBUTES_V2
from kafkalog.codec.layout.bits import Bits
from kafkalog.codec.layout.primitives import COUNT_INVALID, COUNT_LIMIT, LENGTH_INVALID, TRUNCATED, LayoutError
from kafkalog.codec.model import LOG_OVERHEAD, Codec
from kafkalog.codec.parsing.compressed import DECOMPRESSION, compressed_again, read_compressed
from kafkalog.codec.parsing.trace import CHECKSUM, CONSTANT, TRAILING, Reader, Traced
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.rules.framing import MAGIC_POSITION

__all__ = [
    "ENTRIES", "ENTRY", "FETCH_RESULT", "MESSAGE_V0", "MESSAGE_V1", "MULTI_FETCH_RESULT", "OFFSET_INDEX",
    "PRODUCER_SNAPSHOT", "RECORD", "RECORD_BATCH", "TIME_INDEX", "TRANSACTION_INDEX", "Sequence", "Whole",
]  # fmt: skip

Values = Mapping[str, Any]
Place = Callable[[str], int]


class Body(Protocol):
    """Reader and writer of the fields after a header, which belong to the same structure."""

    def read(self, reader: Reader, header: Container, place: Place) -> Values:
        """Read the body's fields from a reader that ends with the structure; return their values by name. `place`
        returns the position of a field of the header. Raises `LayoutError` if a field cannot be read.
        """

    def write(self, values: Values) -> tuple[bytes, Values]:
        """Return the body's bytes, and the header fields that depend on them."""


class Check:
    """A checksum in a header: the name of its field, and the function that computes it from all bytes after that
    field.
    """

    def __init__(self, field: str, function: Callable[[bytes | memoryview], int]) -> None:
        self.field = field
        self.function = function


class Whole(Traced):
    """A header, and a body whose size in bytes is in the header field `length` (None: all bytes left). `check` is the
    checksum, if there is one. `constants` are header fields with a required value.
    """

    def __init__(
        self, header: Struct, body: Body, *, length: str | None = None, check: Check | None = None, **constants: int
    ) -> None:
        super().__init__()
        self.header = header
        self._fixed = derive.fixed(header, derive.names_of(header)) if len(header.subcons) > 1 else None
        self.body = body
        self.length = length
        self.check = check
        self.constants = constants

    def read(self, reader: Reader) -> Container:
        """Read header and body as one container of fields. A wrong constant or checksum, or a fault in the body, is a
        problem: a strict reader raises `LayoutError`, a tolerant one records it and continues. A header that is
        incomplete or has an impossible length raises `LayoutError` in both.
        """
        start = reader.window.tell()
        header = reader.fields(self.header)
        for name, wanted in self.constants.items():
            if header[name] != wanted:
                reader.blame(name, self._position(start, name), CONSTANT, f"{header[name]} where {wanted} is needed")
        end = self._end(reader, header, start)
        self._compare(reader, header, start, end)
        with reader.bounded(end) as inside:
            header.update(self.body.read(inside, header, partial(self._position, start)))
        return header

    def _end(self, reader: Reader, header: Container, start: int) -> int:
        if self.length is None:
            return reader.window.end
        here, length = reader.window.tell(), int(header[self.length])
        # a length counts from the byte after its field; a length of variable size is the whole header
        end = length + (here if self._fixed is None else start + self._fixed.end(self.length))
        if here <= end <= reader.window.end:
            return end
        message = f"{length} bytes would end inside the header"
        if end > here:
            message = f"{length} bytes would end {end - reader.window.end} bytes after the last one there is"
        reader.blame(self.length, self._position(start, self.length), LENGTH_INVALID, message)
        raise LayoutError(LENGTH_INVALID, start, message, self.length)

    def _position(self, start: int, name: str) -> int:
        return start if self._fixed is None else start + self._fixed.position(name)

    def _compare(self, reader: Reader, header: Container, start: int, end: int) -> None:
        if self.check is None or self._fixed is None:
            return
        name, stored = self.check.field, header[self.check.field]
        computed = self.check.function(reader.window.between(start + self._fixed.end(name), end))
        if computed == stored:
            reader.remark(name, "as computed")
        else:
            message = f"{stored:#010x} is there, and {computed:#010x} is computed"
            reader.blame(name, self._position(start, name), CHECKSUM, message)

    def _build(self, obj: Values, stream: Any, context: Container, path: str) -> Values:
        body, known = self.body.write(obj)
        header = {**obj, **known}
        if self.length is not None:
            inside = 0 if self._fixed is None else self._fixed.size - self._fixed.end(self.length)
            header[self.length] = inside + len(body)
        if self.check is not None:
            header[self.check.field] = 0
        data = bytearray(self.header.build(header)) + body
        if self.check is not None and self._fixed is not None:
            covered = memoryview(data)[self._fixed.end(self.check.field) :]
            self._fixed.writer(self.check.field)(data, 0, self.check.function(covered))
        stream.write(bytes(data))
        return obj


class ByMagic(Traced):
    """An entry of a log. The magic byte, which is at the same position in every format, selects the structure."""

    def __init__(self, cases: Mapping[int, Whole]) -> None:
        super().__init__()
        self.cases = cases

    def read(self, reader: Reader) -> Any:
        """Read one entry as a container of its fields. An entry of an unknown magic is read like the newest, whose
        declaration then reports the magic as a problem. Raises `LayoutError` if the bytes left end before the magic,
        and as `Whole.read` does.
        """
        start = reader.window.tell()
        if reader.left <= MAGIC_POSITION:
            left = reader.left
            (*_, last) = reader.fields(record_batch.LOG_OVERHEAD)
            message = f"the header is cut: {left} bytes are left"
            reader.blame(last, start + LOG_OVERHEAD.position(last), TRUNCATED, message)
            raise LayoutError(TRUNCATED, start, message, last)
        magic = reader.window.between(start + MAGIC_POSITION, start + MAGIC_POSITION + 1)[0]
        return self.cases.get(magic, self.cases[max(self.cases)]).read(reader)

    def _build(self, obj: Values, stream: Any, context: Container, path: str) -> Any:
        tree = self.cases.get(obj["magic"])
        if tree is None:
            raise LayoutError(CONSTANT, 0, f"magic {obj['magic']} is none of {sorted(self.cases)}", path)
        stream.write(tree.build(obj))
        return obj


class Sequence(Traced):
    """Elements one after another, up to the end of the bytes. Each takes at least one byte; an incomplete element is a
    fault.
    """

    def __init__(self, element: Traced | Struct, *, is_of_one_batch: bool = False) -> None:
        super().__init__()
        self.element = element
        self.is_of_one_batch = is_of_one_batch

    def read(self, reader: Reader) -> ListContainer:
        """Read elements up to the end as a list, empty if no bytes are left. Raises `LayoutError` for an element that
        cannot be read, and for more elements of one batch than the reader's limit.
        """
        elements = ListContainer()
        while reader.left:
            if self.is_of_one_batch and len(elements) == reader.limits.records_per_batch:
                raise LayoutError(COUNT_LIMIT, reader.window.tell(), f"more than {len(elements)} of them", reader.path)
            with reader.inside(f"[{len(elements)}]") as inner:
                elements.append(inner.value_of(self.element))
        return elements

    def _build(self, obj: Any, stream: Any, context: Container, path: str) -> Any:
        for element in obj:
            stream.write(self.element.build(element))
        return obj


class Fields:
    """A body of declared fields."""

    def __init__(self, tree: Struct) -> None:
        self.tree = tree

    def read(self, reader: Reader, header: Container, place: Place) -> Values:
        """Read the fields."""
        values: Values = reader.fields(self.tree)
        return values

    def write(self, values: Values) -> tuple[bytes, Values]:
        """Return the fields' bytes, and no further values."""
        return self.tree.build(values), {}


class Rest:
    """A body that is one field with all bytes left: raw bytes, or a sequence."""

    def __init__(self, name: str, sequence: Sequence | None = None) -> None:
        self.name = name
        self.sequence = sequence

    def read(self, reader: Reader, header: Container, place: Place) -> Values:
        """Read the field."""
        if self.sequence is None:
            return {self.name: reader.raw(self.name, reader.left).value}
        with reader.inside(self.name) as inner:
            return {self.name: inner.value_of(self.sequence)}

    def write(self, values: Values) -> tuple[bytes, Values]:
        """Return the field's bytes, and no further values."""
        value = values[self.name]
        return bytes(value) if self.sequence is None else self.sequence.build(value), {}


def checked_count(reader: Reader, header: Container, name: str, place: Place) -> int:
    """Return the count in header field `name`. `place` returns the position of a field. If the count is negative or
    above the reader's `records_per_batch`, reports a fault of the field and raises `LayoutError`.
    """
    count: int = header[name]
    if not 0 <= count <= reader.limits.records_per_batch:
        code = COUNT_INVALID if count < 0 else COUNT_LIMIT
        message = f"{count} of them, where at most {reader.limits.records_per_batch} are read"
        reader.blame(name, place(name), code, message)
        raise LayoutError(code, place(name), message, name)
    return count


def read_elements(reader: Reader, elements: ListContainer, name: str, count: int, element: Traced | Struct) -> None:
    """Read `count` elements and append their values to `elements`. Raises `LayoutError` at an element that cannot be
    read. Each takes at least one byte, so a wrong count ends with the bytes, before it takes much memory.
    """
    for number in range(count):
        with reader.inside(f"{name}[{number}]") as inner:
            elements.append(inner.value_of(element))


class Counted:
    """A body of elements, whose number is the header's field `count`."""

    def __init__(self, name: str, element: Struct, count: str) -> None:
        self.name = name
        self.element = element
        self.count = count

    def read(self, reader: Reader, header: Container, place: Place) -> Values:
        """Read the elements as a list."""
        count = checked_count(reader, header, self.count, place)
        elements = ListContainer()
        read_elements(reader, elements, self.name, count, self.element)
        return {self.name: elements}

    def write(self, values: Values) -> tuple[bytes, Values]:
        """Return the elements' bytes, and their count as the header field."""
        elements = values[self.name]
        return b"".join(self.element.build(element) for element in elements), {self.count: len(elements)}


def codec_of(attributes: Any, bits: Bits) -> int:
    """Return the compression in `attributes`, which is a number or a mapping of the bits' names."""
    return int(bits.named(bits.number(attributes)).codec)


def _check_end(reader: Reader, left: int, place: Place) -> None:
    if left:
        message = f"{left} bytes are left after so many records"
        reader.blame("records_count", place("records_count"), TRAILING, message)


class BatchBody:
    """The records of a batch, plain or as one compressed stream, whose bytes are kept as `compressed`."""

    def read(self, reader: Reader, header: Container, place: Place) -> Values:
        """Read the records; return a dict of `compressed` (bytes; None if not compressed, or for no records and no
        bytes) and `records` (a list). `place` returns the position of a header field, for errors. Raises `LayoutError`
        for an invalid count, a record that cannot be read, bytes after the last record, or bytes that cannot be
        decompressed. A tolerant reader records a fault inside decompressed bytes and returns the records before it. It
        also records bytes after the last record, as a fault of `records_count`.
        """
        count, codec = checked_count(reader, header, "records_count", place), header.attributes.codec
        records = ListContainer()
        if codec == Codec.NONE or (count == 0 and not reader.left):
            read_elements(reader, records, "records", count, RECORD)
            _check_end(reader, reader.left, place)
            return {"compressed": None, "records": records}
        compressed, plain = read_compressed(reader, codec, 2, "compressed")
        with reader.inside("unpacked", unpacked=plain) as inner:
            read_elements(inner, records, "records", count, RECORD)
            _check_end(reader, inner.left, place)
        return {"compressed": compressed, "records": records}

    def write(self, values: Values) -> tuple[bytes, Values]:
        """Return the bytes of the records, and a dict with their number as `records_count`. `attributes` names the
        compression. The bytes in `compressed` are reused if they hold exactly these records. Otherwise the records are
        compressed again; no records give empty bytes. Raises `FormatError` for an unknown compression, `ConstructError`
        if a value does not fit its field.
        """
        records = values["records"]
        plain = b"".join(RECORD.build(record) for record in records)
        codec, kept = codec_of(values["attributes"], ATTRIBUTES_V2), values.get("compressed")
        if codec == Codec.NONE or not (records or kept):
            return plain, {"records_count": len(records)}
        stream = compressed_again(codec, 2, plain, kept)
        return stream if records or stream == kept else b"", {"records_count": len(records)}


class MessageBody:
    """Key and value of a message. The value of a wrapper is a compressed set, whose messages are read as `messages`.
    `inner` reads the set; it is None if no wrapper is allowed here.
    """

    def __init__(self, magic: int, bits: Bits, inner: Sequence | None = None) -> None:
        self.magic = magic
        self.bits = bits
        self.inner = inner

    def read(self, reader: Reader, header: Container, place: Place) -> Values:
        """Read `key`, `value`, and `messages` as a dict. `messages` is None in a message that is not a wrapper, and
        after a fault in the messages that a tolerant reader records. `place` returns the position of a header field,
        for errors. Raises `LayoutError` for a key or value that cannot be read, a value that cannot be decompressed,
        and a wrapper inside a wrapper.
        """
        codec = header.attributes.codec
        if codec == Codec.NONE:
            return {**reader.fields(legacy_message.MESSAGE_CONTENT), "messages": None}
        if self.inner is None:
            message = "a compressed message inside a compressed message"
            reader.blame("attributes", place("attributes"), CONSTANT, message)
            raise LayoutError(CONSTANT, place("attributes"), message, "attributes")
        (key, key_doc, key_leaf), (value, value_doc, value_leaf) = derive.fields_of(legacy_message.MESSAGE_CONTENT)
        fields = {key: reader.field(key, key_leaf, key_doc)}
        fields[value], plain = self._value(reader, value, value_leaf, value_doc, codec)
        fields["messages"] = None
        with reader.inside("unpacked", unpacked=plain) as inner:
            fields["messages"] = self.inner.read(inner)
        return fields

    def _value(self, reader: Reader, name: str, leaf: Construct, doc: str, codec: int) -> tuple[bytes, memoryview]:
        start = reader.window.tell()
        with reader.inside(name, doc=doc) as inner:
            length = inner.leaf("length", leaf.prefix, "bytes that follow", "int32").value
            if not 0 <= length <= inner.left:
                inner.blame("length", start, LENGTH_INVALID, f"{length} bytes, and {inner.left} are left")
                raise LayoutError(LENGTH_INVALID, start, f"a wrapper with a value of {length} bytes", name)
            decompressed = None
            with inner.bounded(inner.window.tell() + length) as stream:
                decompressed = read_compressed(stream, codec, self.magic, "compressed")
            if decompressed is None:  # a tolerant reader has recorded the problem, and continues after the message
                raise LayoutError(DECOMPRESSION, start, "the messages cannot be unpacked", name)
            return decompressed

    def write(self, values: Values) -> tuple[bytes, Values]:
        """Return the bytes of key and value, and an empty dict: no field is computed from the body. A key or value that
        is missing is written as null. If `messages` of a wrapper are present, they are compressed again only if they
        differ from those in its `value`; this raises `FormatError` for a compression that the magic does not have.
        """
        codec, value = codec_of(values["attributes"], self.bits), values.get("value")
        messages = values.get("messages")
        if codec != Codec.NONE and messages is not None and self.inner is not None:
            value = compressed_again(codec, self.magic, self.inner.build(messages), value)
        return legacy_message.MESSAGE_CONTENT.build({"key": values.get("key"), "value": value}), {}


def _message(magic: int, inner: Sequence | None) -> Whole:
    header = (legacy_message.MESSAGE_V0_HEADER, legacy_message.MESSAGE_V1_HEADER)[magic]
    bits = (ATTRIBUTES_V0, ATTRIBUTES_V1)[magic]
    return Whole(header, MessageBody(magic, bits, inner), length="size", check=Check("crc", zlib.crc32), magic=magic)


RECORD = Whole(
    Struct(*record_batch.RECORD.subcons[:1]), Fields(Struct(*record_batch.RECORD.subcons[1:])), length="length"
)
"""One record of a batch, after its length."""
_PLAIN_MESSAGES = Sequence(ByMagic({0: _message(0, None), 1: _message(1, None)}), is_of_one_batch=True)
MESSAGE_V0 = _message(0, _PLAIN_MESSAGES)
"""A message of magic 0, or a wrapper of several."""
MESSAGE_V1 = _message(1, _PLAIN_MESSAGES)
"""A message of magic 1, or a wrapper of several, whose offsets are relative."""
RECORD_BATCH = Whole(record_batch.BATCH_HEADER, BatchBody(), length="batch_length", check=Check("crc", crc32c), magic=2)
"""A batch of magic 2."""
ENTRY = ByMagic({0: MESSAGE_V0, 1: MESSAGE_V1, 2: RECORD_BATCH})
"""An entry of a log: its magic selects one of the three structures."""
ENTRIES = Sequence(ENTRY)
"""A whole `.log`, or a KRaft `.checkpoint`."""
OFFSET_INDEX = Sequence(offset_index.OFFSET_INDEX_ENTRY)
TIME_INDEX = Sequence(time_index.TIME_INDEX_ENTRY)
TRANSACTION_INDEX = Sequence(transaction_index.ABORTED_TRANSACTION)
PRODUCER_SNAPSHOT = Whole(
    producer_snapshot.SNAPSHOT_HEADER,
    Counted("entries", producer_snapshot.PRODUCER_ENTRY, "count"),
    check=Check("crc", crc32c),
    version=1,
)
FETCH_RESULT = Whole(fetch_result.MESSAGE_SET_SEND, Rest("messages"), length="total_length")
MULTI_FETCH_RESULT = Whole(
    fetch_result.MULTI_MESSAGE_SET_SEND, Rest("parts", Sequence(FETCH_RESULT)), length="total_length"
)
