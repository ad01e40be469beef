"""Find the place to explain in a log: the entry at a position or offset, or the first damage with its neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct, structs

from kafkalog.codec.common.findings import Finding, Severity, StopReason
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.common.source import Source, zeros_end
from kafkalog.codec.model import LOG_OVERHEAD, AnyHeader, RecordBatch
from kafkalog.codec.parsing.trace import FieldSpan, read_spans
from kafkalog.codec.parsing.whole import ENTRY
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import MAGIC_POSITION, entry_size
from kafkalog.log.walk.cursor import Cursor
from kafkalog.recovery.damage.bit_repair import BitRepair, Neighbors, outside_checksum, repair_at
from kafkalog.recovery.explain.before_damage import records_before_damage
from kafkalog.recovery.explain.explanation import ExplainedPart, PartRole
from kafkalog.recovery.explain.nested import read_contents
from kafkalog.recovery.explain.suspects import blame_suspects

__all__ = ["Wanted", "broken_fields", "explain_log", "one_bit", "with_records"]

_HEADER_FIELDS = 40
"""More fields than any header has."""
_LARGEST_DAMAGE = 64 * MIB
"""Most bytes of a damaged place that are read."""


class Wanted(Struct, frozen=True):
    """Place to explain: a byte of the file, or an offset. With neither it is the first damage, or the start."""

    position: int | None = None
    offset: int | None = None

    def is_in(self, start: int, end: int, header: AnyHeader | None) -> bool:
        """Whether an entry contains the wanted place. `start` and `end` (exclusive) are its bytes, `header` its header,
        None for damage. An offset is contained if the entry's last offset reaches it: entries are examined in order.
        """
        if self.position is not None:
            return start <= self.position < end
        return self.offset is not None and header is not None and header.last_offset >= self.offset

    def is_between(self, after: AnyHeader | None) -> bool:
        """Whether the wanted offset is below the first offset of the entry `after` damage, so that the damage may have
        contained it. False if there is no entry after it or no offset is wanted.
        """
        return self.offset is not None and after is not None and after.first_offset > self.offset

    @property
    def is_open(self) -> bool:
        """Whether neither a position nor an offset is given."""
        return self.position is None and self.offset is None


class _Place(Struct, frozen=True, kw_only=True):
    """A part of the log: one entry, or damage up to the next entry, with the header before it."""

    start: int
    end: int
    header: AnyHeader | None
    """None if no sound entry begins here"""
    before: tuple[int, AnyHeader] | None = None
    findings: tuple[Finding, ...] = ()


def _places(source: Source, base_offset: int | None, limits: Limits) -> Iterator[_Place]:
    """Yield the parts of a log in order and without gaps: one for each sound entry, with its findings of severity
    ERROR, and one for each damaged range. A damaged range ends at the next entry that is proven to belong to the log,
    or at the end of the file. If `base_offset` is None, it is taken from the first entry, and is 0 if that is damaged.
    Raises `StorageError` if the file cannot be read.
    """
    if base_offset is None:  # no name tells it
        first = next(iter(Scanner(source, limits=limits)), None)
        base_offset = 0 if first is None else max(first.header.first_offset, 0)
    cursor, position = Cursor(source, base_offset, limits=limits), 0
    before: tuple[int, AnyHeader] | None = None
    while position < source.size:
        scanner = Scanner(source, position=position, limits=limits)
        for batch in scanner:
            cursor.judge(batch)
            findings = tuple(finding for finding in cursor.found if finding.severity is Severity.ERROR)
            yield _Place(
                start=batch.position,
                end=batch.position + batch.size,
                header=batch.header,
                before=before,
                findings=findings,
            )
            before = batch.position, batch.header
        if scanner.stop is StopReason.END:
            return
        damaged = scanner.valid_bytes
        following = cursor.search(damaged, cursor.next_offset)
        position = source.size if following is None else following
        cursor.resume(position)
        yield _Place(start=damaged, end=position, header=None, before=before, findings=tuple(scanner.findings))


def explain_log(
    source: Source, base_offset: int | None, topic: str | None, wanted: Wanted, *, most: int, limits: Limits
) -> tuple[ExplainedPart, ...]:
    """Explain the entry at the place `wanted`; if it is damaged, also the entries before and after it. If no place is
    given, explain the first damage, or the start of a sound log. If no entry contains the wanted offset, the damaged
    range that may have contained it is explained, or else the next entry. The result is empty if the place is not in
    the log, or the log is empty.

    The parts are in the order of the file and have at most about `most` fields. `base_offset` is the one in the
    segment's name, None if it is unknown. `topic` decides how keys and values of Kafka's own topics are read. Raises
    `StorageError` if the file cannot be read.
    """
    last: _Place | None = None
    places = _places(source, base_offset, limits)
    for place in places:
        if last is not None and last.header is None and wanted.is_between(place.header):
            return tuple(_parts(source, topic, last, place, most=most, limits=limits))
        is_damaged = place.header is None or bool(place.findings)
        if is_damaged if wanted.is_open else wanted.is_in(place.start, place.end, place.header):
            following = next(places, None) if is_damaged else None
            return tuple(_parts(source, topic, place, following, most=most, limits=limits))
        last = place
    if wanted.offset is not None and last is not None and last.header is None:
        return tuple(_parts(source, topic, last, None, most=most, limits=limits))
    return tuple(_start(source, topic, most=most, limits=limits)) if wanted.is_open else ()


def with_records(source: Source, part: ExplainedPart, limits: Limits) -> ExplainedPart:
    """Return a copy of `part` whose `records` are the records of its batch that can be decoded: all, or those before
    the damage (`records_before_damage`); none of a message of magic 0 or 1. A neighbor of damage (role BEFORE or AFTER)
    is returned unchanged. At most `limits.batch_bytes` bytes are read. Raises `StorageError` if the file cannot be
    read.
    """
    if part.role not in (PartRole.ASKED, PartRole.DAMAGED):
        return part
    start, end = part.span.position, part.span.end
    data = source.read(start, min(end - start, limits.batch_bytes))
    return structs.replace(part, records=records_before_damage(bytes(data), start, limits))


def _start(source: Source, topic: str | None, *, most: int, limits: Limits) -> Iterator[ExplainedPart]:
    """Yield one part for each entry from the start of a sound log. Its role is ASKED, or DAMAGED if one of its fields
    contradicts another although the log counts as sound. Stops after the part with which the number of fields reaches
    `most`, or at the end of the log. Raises `StorageError` if the log cannot be read.
    """
    before: AnyHeader | None = None
    for batch in Scanner(source, limits=limits):
        part = _entry(batch, before, topic, PartRole.ASKED, most=most, limits=limits)
        yield part
        before = batch.header
        most -= sum(1 for _ in part.span.walk())
        if most <= 0:
            return


def _parts(
    source: Source, topic: str | None, place: _Place, following: _Place | None, *, most: int, limits: Limits
) -> Iterator[ExplainedPart]:
    if place.header is not None and not place.findings:
        yield _part_at(source, place, topic, PartRole.ASKED, most, limits)
        return
    if place.before is not None:
        neighbor = _Place(start=place.before[0], end=place.before[0] + place.before[1].size, header=place.before[1])
        yield _header_of(_part_at(source, neighbor, topic, PartRole.BEFORE, max(most, _HEADER_FIELDS), limits))
    yield _damage(source, topic, place, following, most=most, limits=limits)
    if following is not None and following.header is not None:
        yield _header_of(_part_at(source, following, topic, PartRole.AFTER, max(most, _HEADER_FIELDS), limits))


def _part_at(
    source: Source, place: _Place, topic: str | None, role: PartRole, most: int, limits: Limits
) -> ExplainedPart:
    data = memoryview(source.read(place.start, place.end - place.start))
    if place.header is None:
        span = read_spans(ENTRY, data, position=place.start, limits=limits, most=most)
        return ExplainedPart(role=role, what=_name(data), span=span)
    before = None if place.before is None else place.before[1]
    return _entry(RecordBatch(place.header, place.start, data), before, topic, role, most=most, limits=limits)


def _entry(
    batch: RecordBatch, before: AnyHeader | None, topic: str | None, role: PartRole, *, most: int, limits: Limits
) -> ExplainedPart:
    span = read_spans(ENTRY, batch.data, position=batch.position, limits=limits, most=most)
    span.end = batch.position + batch.size
    if role is PartRole.ASKED:
        blame_suspects(span, batch.data, before)
    read_contents(span, topic, batch, limits)
    breaks = tuple(broken_fields(span))
    role = PartRole.DAMAGED if breaks and role is PartRole.ASKED else role
    return ExplainedPart(role=role, what=_name(memoryview(batch.data)), span=span, breaks=breaks)


def _header_of(part: ExplainedPart) -> ExplainedPart:
    """Return a copy of the part of a neighbor with only the fields of its header."""
    kept = [child for child in part.span.children if not child.name.startswith(("records", "unpacked", "compressed"))]
    return structs.replace(part, span=replace(part.span, children=kept, note=None), breaks=())


def _name(data: memoryview) -> str:
    magic = data[MAGIC_POSITION] if len(data) > MAGIC_POSITION else -1
    return {0: "message of magic 0", 1: "message of magic 1", 2: "batch of magic 2"}.get(magic, "entry")


def _damage(
    source: Source, topic: str | None, place: _Place, following: _Place | None, *, most: int, limits: Limits
) -> ExplainedPart:
    if zeros_end(source, place.start, place.end) == place.end:
        zeros = place.end - place.start
        span = FieldSpan(
            "", place.start, place.end, children=[FieldSpan("zeros", place.start, place.end, f"{zeros} bytes", None)]
        )
        after = "up to the end of the file" if place.end == source.size else "between sound entries"
        remark = f"{zeros} zero bytes {after}: space that was allocated and never written, or lost with the power"
        return ExplainedPart(role=PartRole.DAMAGED, what="zeros", span=span, remarks=(remark,))
    data = memoryview(source.read(place.start, min(place.end - place.start, _LARGEST_DAMAGE)))
    span = read_spans(ENTRY, data, position=place.start, limits=limits, most=most)
    if span.note is not None and len(data) >= LOG_OVERHEAD.size:  # there are more fields, which belong to the entry too
        span.end = max(span.end, place.start + min(entry_size(data, 0), len(data)))
    blame_suspects(span, data, None if place.before is None else place.before[1], place.findings)
    if place.header is not None:
        read_contents(span, topic, RecordBatch(place.header, place.start, data), limits)
    repair = _repair(source, place, following)
    remarks = [f"{finding.code}: {finding.detail}" for finding in place.findings]
    breaks = tuple(broken_fields(span))
    if repair is not None:
        breaks, about = one_bit(span, place.start + repair.position, repair.bit, data)
        remarks += about
    elif set(breaks) == {"crc"}:
        remarks.append("which field is wrong cannot be told: the checksum alone does not fit, in more than one bit")
        breaks = ()
    return ExplainedPart(
        role=PartRole.DAMAGED, what=_name(data), span=span, remarks=tuple(remarks), breaks=breaks
    )


def _repair(source: Source, place: _Place, following: _Place | None) -> BitRepair | None:
    """Return the single flipped bit that explains all damage of `place`; None if no single bit does. Reads the damaged
    bytes, and judges by the checksum and by the offsets and epochs of the entries before and after. `following` is the
    next part of the log; a damaged range or None is ignored. Raises `StorageError` if the log cannot be read.
    """
    after = None if following is None or following.header is None else following
    before = None if place.before is None else place.before[1]
    around = Neighbors(
        next_offset=None if before is None else before.next_offset,
        following=None if after is None or after.header is None else after.header.first_offset,
        leader_epoch=None if after is None or after.header is None else after.header.partition_leader_epoch,
    )
    if place.header is not None and place.header.magic > 1:
        epoch = None if before is None else before.partition_leader_epoch
        return outside_checksum(place.header, around, epoch)  # type: ignore[arg-type]
    repair = repair_at(source, place.start, around, None if after is None else after.start - place.start)
    return None if repair is None else repair[0]


def one_bit(
    span: FieldSpan, position: int, bit: int, data: bytes | memoryview
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describe a flipped bit: bit `bit` (0 is the lowest) of byte `position` of the file. Return two tuples with one
    element each. The first has the path of the field in `span` that contains the byte (`the records` if no field does).
    The second has a sentence with the present and the right value of the byte. If the field has no problem yet, it is
    marked as wrong in `span`. `data` are the bytes of the span.
    """
    field = _field_at(span, position) or "the records"
    for path, field_span in _paths(span):
        if path == field and field_span.problem is None:
            field_span.problem, field_span.code = f"bit {bit} of byte {position} is flipped", "contradiction"
    present = data[position - span.position]
    right = present ^ 1 << bit
    sentence = f"one flipped bit explains it: bit {bit} of byte {position}, in {field}"
    return (field,), (f"{sentence} ({present:#04x} is there, {right:#04x} would be right)",)


def broken_fields(span: FieldSpan, prefix: str = "") -> Iterator[str]:
    """Yield paths of fields with a problem, checksums last."""
    broken = [(path, field_span) for path, field_span in _paths(span, prefix) if field_span.problem is not None]
    yield from (path for path, field_span in broken if field_span.code != "checksum")
    yield from (path for path, field_span in broken if field_span.code == "checksum")


def _paths(span: FieldSpan, prefix: str = "") -> Iterator[tuple[str, FieldSpan]]:
    for child in span.children:
        joint = "" if child.name.startswith("[") or not prefix else "."
        path = prefix if child.is_unpacked else f"{prefix}{joint}{child.name}"
        yield path, child
        yield from _paths(child, path)


def _field_at(span: FieldSpan, position: int) -> str | None:
    """Return the path, such as `header.attributes`, of the innermost field of `span` that contains the byte at
    `position` of the file; a group of bits is one field. None if no field contains it. Fields inside decompressed data
    are ignored, because they have no position in the file.
    """
    for child in span.children:
        if child.position <= position < child.end and not child.is_unpacked:
            inner = None if child.type.startswith("bit") else _field_at(child, position)
            joint = "" if inner is None or inner.startswith("[") else "."
            return child.name if inner is None or _has_bits(child) else f"{child.name}{joint}{inner}"
    return None


def _has_bits(span: FieldSpan) -> bool:
    return any(child.type.startswith("bit") for child in span.children)
