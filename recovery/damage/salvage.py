"""Continue a log after damage: correct proven bit flips, and resume the walk at the next proven batch.

This examines the part that mode safe would cut off. Everything that is kept has passed all the usual checks; losses are
reported as exact offset ranges.
"""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.common.source import BufferSource, Source
from kafkalog.codec.model import BATCH, AnyHeader, BatchHeader, RecordBatch
from kafkalog.codec.plain.insides import Insides, look_inside
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import BatchVerdict, out_of_place
from kafkalog.codec.rules.framing import MAGIC_POSITION
from kafkalog.log.storage.content import Literal, Part, join
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.cursor import Cursor
from kafkalog.recovery.damage.bit_repair import BitRepair, Neighbors, Proof, outside_checksum, repair_at
from kafkalog.recovery.damage.soundness import Cut, SoundLog, walk_segments

__all__ = ["salvage"]


class _Stop(Struct, frozen=True, kw_only=True):
    """Place at which a sequence of sound batches ends, and why."""

    position: int
    code: FindingCode
    detail: str
    is_tail: bool
    repair: tuple[BitRepair, int] | None = None
    """correction that neighbors prove in a batch whose checksum is right, and the batch's size in bytes"""
    behind: int | None = None
    """position at which to continue; None: it has to be searched for"""


class _Salvage:
    """Walk over the segments of a partition that collects in `result` which bytes to keep. A cut is a place from which
    bytes are removed.
    """

    def __init__(self, tree: Tree, repair: Proof | None, resume: bool, looks_inside: bool) -> None:
        self._tree = tree
        self._repair = repair
        self._resume = resume
        self._looks_inside = looks_inside
        self._last: int | None = None
        """last offset of the last kept batch; None before the first"""
        self._cursor: Cursor
        self._epoch = -1
        self._previous_epoch: int | None = None
        """leader epoch of the batch before; None if there is no sound batch right before"""
        self._unknown_magics: set[int] = set()
        self.result = SoundLog()

    def segment(self, base: int, path: str, next_base: int | None) -> bool:
        """Salvage one segment; return whether the walk may continue in the next one. `next_base` is the base offset of
        the next segment, None for the last. Sets in the result the segment's size, and its content if this is not
        merely a prefix of the file. Also sets the first cut, the repairs and the losses.

        After damage that was not repaired, the walk continues only with `resume`, or if the damage is an incomplete
        write at the log's end. It continues after a batch that is left out for unreadable records. Raises
        `StorageError` if the file cannot be read.
        """
        source = self._tree.source(path)
        expected = base if self._last is None else max(self._last + 1, base)
        self._cursor = Cursor(source, base, next_base, expected=expected)
        parts: list[Part] = []
        position = 0
        goes_on = True
        while True:
            stop = self._stretch(source, position, base, next_base)
            end = source.size if stop is None else stop.position
            parts += self._tree.files[path].slice(position, end).parts
            if stop is None:
                break
            if stop.behind is not None:
                self._note_cut(path, stop)
                position = stop.behind
                continue
            mended = self._mend(source, path, stop)
            if mended is not None:
                repaired, position = mended
                parts += repaired
                continue
            resumed = self._cursor.search(stop.position, self._cursor.next_offset) if self._resume else None
            self._note_cut(path, stop)
            if resumed is None:
                goes_on = self._resume or stop.is_tail
                break
            position = resumed
        content = join(parts)
        self.result.sizes[path] = content.size
        if content != self._tree.files[path].slice(0, content.size):
            self.result.contents[path] = content
        return goes_on

    def _stretch(self, source: Source, start: int, base: int, next_base: int | None) -> _Stop | None:
        """Keep sound batches from byte `start` on. Return where and why they end; None if they reach the end of the
        file. Each batch is judged by what is known of the batch after it: its first offset and leader epoch, also those
        that a damaged batch has after its repair; at the end of the file `next_base`. `base` and `next_base` are the
        base offsets of this segment and of the next one (None for the last). Raises `StorageError` if the file cannot
        be read.
        """
        scanner = Scanner(source, position=start)
        held: RecordBatch | None = None  # until it is known what comes after it
        for batch in scanner:
            following = batch.header.first_offset, _epoch_of(batch.header)
            if held is not None and (stop := self._take(held, base, *following)) is not None:
                return stop
            held = batch
        whole = scanner.stop is StopReason.END
        if held is not None:
            behind = (next_base, None) if whole else self._mended_behind(source, scanner.valid_bytes)
            stop = self._take(held, base, *behind)
            if stop is not None:
                return stop
        if whole:
            return None
        ended = self._cursor.ended(scanner, through_damage=False)
        finding = ended.findings[-1]
        return _Stop(position=ended.position, code=finding.code, detail=finding.detail, is_tail=ended.is_tail)

    def _mended_behind(self, source: Source, position: int) -> tuple[int | None, int | None]:
        """Return the first offset and leader epoch that the damaged batch at byte `position` has after its repair; they
        help to judge the batch before it. (None, None) if bits are not to be repaired, or no repair has the required
        proof. Raises `StorageError` if the file cannot be read.
        """
        if self._repair is None:
            return None, None
        found = repair_at(source, position, Neighbors(unknown_magics=frozenset(self._unknown_magics)))
        if found is None or found[0].proof < self._repair:
            return None, None
        repair, size = found
        header = BatchHeader(*BATCH.struct.unpack_from(repair.apply(bytes(source.read(position, size)))))
        return header.base_offset, header.partition_leader_epoch

    def _take(self, batch: RecordBatch, base: int, following: int | None, next_epoch: int | None) -> _Stop | None:
        """Keep a batch whose checksum is right, and return None; or return why it is not kept. It is not kept if its
        offsets repeat or are out of place; with `resume` also if it is displaced. If bits are repaired, it is not kept
        if one outside the checksum is proven to be flipped. With `looks_inside` it is not kept if its records cannot be
        read, unless they are control records. `base` is the base offset of the segment. `following` and `next_epoch`
        are the first offset and leader epoch of the next batch, None if unknown.

        A kept batch updates offsets, epochs and gaps of the walk, and the end offset in the result. A batch that is
        left out for unreadable records updates only the offset expected next. Raises `StorageError` if the batch after
        it cannot be read.
        """
        header, position = batch.header, batch.position
        last = header.last_offset
        first = header.first_offset
        if self._repair is not None and isinstance(header, BatchHeader):
            around = Neighbors(next_offset=self._cursor.next_offset, following=following, leader_epoch=next_epoch)
            wrong = outside_checksum(header, around, self._previous_epoch)
            if wrong is not None and wrong.proof >= self._repair:
                is_epoch = wrong.field == "partition_leader_epoch"
                code = FindingCode.LEADER_EPOCH_MISMATCH if is_epoch else FindingCode.OFFSET_NOT_INCREASING
                return _Stop(
                    position=position, code=code, detail=wrong.field, is_tail=False, repair=(wrong, header.size)
                )
        order = self._cursor.continuity
        problem = out_of_place(header.magic, first, last, base)
        if problem is not None:
            code, detail = problem
            return _Stop(position=position, code=code, detail=detail, is_tail=False)
        behind = self._cursor.behind(header, position + header.size)
        is_displaced = order.judge(header, *behind) is BatchVerdict.DISPLACED
        if self._resume and (is_displaced or order.is_between(header, behind[0])):
            detail = f"offset {first}, where the batches around it leave room for offset {self._cursor.next_offset}"
            return _Stop(
                position=position,
                code=FindingCode.OFFSET_DISPLACED,
                detail=detail,
                is_tail=False,
                behind=position + header.size,
            )
        if self._last is not None and first <= self._last:
            detail = f"offset {first} after {self._last}"
            return _Stop(position=position, code=FindingCode.OFFSET_NOT_INCREASING, detail=detail, is_tail=False)
        if self._looks_inside and not header.is_control:  # what a marker ends would be open without it
            insides, finding = look_inside(batch)
            if insides is Insides.UNREADABLE and finding is not None:
                order.took(last)
                return _Stop(
                    position=position,
                    code=finding.code,
                    detail=finding.detail,
                    is_tail=False,
                    behind=position + header.size,
                )
        self._note_gap(first)
        order.took(last)
        self._last = last
        self._epoch = max(self._epoch, header.partition_leader_epoch)
        self._previous_epoch = _epoch_of(header)
        self.result.end_offset = last + 1
        return None

    _gap_from: int | None = None

    def _note_gap(self, first: int) -> None:
        """Record that the log resumes at offset `first` after damage. The offsets lost before it, if any, are added to
        `result.lost` as a range with inclusive ends. All cuts without a resumed offset get `first` as this offset.
        """
        resumed = self.result.resumed
        for number in reversed(range(len(resumed))):
            if resumed[number] is not None:  # and so is every one before it
                break
            resumed[number] = first
        if self._gap_from is not None and first > self._gap_from:
            self.result.lost.append((self._gap_from, first - 1))
        self._gap_from = None

    def _note_cut(self, path: str, stop: _Stop) -> None:
        self._previous_epoch = None
        if not stop.is_tail:
            self.result.resumed.append(None)
        if self.result.cut is None:
            self.result.cut = Cut(path=path, position=stop.position, code=stop.code, detail=stop.detail)
        self._gap_from = (self._last + 1) if self._last is not None else None

    def _mend(self, source: Source, path: str, stop: _Stop) -> tuple[list[Part], int] | None:
        """Repair one flipped bit in the batch at a stop. Return the content of the corrected batch (slices of the file
        around one new byte), and the position after it. None if bits are not to be repaired, no repair has the required
        proof, or the repaired batch would repeat offsets.

        On success the walk continues after the batch, and a finding about the repair is added to the result. If no
        repair is found and the magic is unknown, it is remembered: a magic that repeats is not a flipped bit. The file
        itself is not changed. Raises `StorageError` if it cannot be read.
        """
        located = stop.repair
        if self._repair is None:
            return None
        if located is None:  # of the first batch nothing before it tells the offset
            expected = None if self._last is None else self._cursor.next_offset
            epoch = self._epoch if self._epoch >= 0 else None
            neighbors = Neighbors(
                next_offset=expected, following=None, leader_epoch=epoch, unknown_magics=frozenset(self._unknown_magics)
            )
            located = repair_at(source, stop.position, neighbors)
            if located is None and stop.code is FindingCode.MAGIC_UNKNOWN:
                self._unknown_magics.update(source.read(stop.position + MAGIC_POSITION, 1))
        if located is None or located[0].proof < self._repair:
            return None
        repair, size = located
        repaired = repair.apply(bytes(source.read(stop.position, size)))
        header = next(iter(Scanner(BufferSource(repaired)))).header
        if not isinstance(header, BatchHeader) or header.base_offset < self._cursor.next_offset:
            return None
        self._note_gap(header.base_offset)
        self._last = header.last_offset
        self._cursor.took(header.next_offset)
        self._previous_epoch = header.partition_leader_epoch
        self.result.end_offset = header.next_offset
        why = (
            "no checksum covers it, and with this bit alone the batch fits between its neighbors"
            if stop.repair is not None
            else f"damage of three or more bits looks like this with probability {repair.chance:.1e}"
        )
        detail = (
            f"bit {repair.bit} of byte {repair.position} of the batch ({repair.field}) turned over; proof "
            f"{repair.proof.name}; {why}"
        )
        place = stop.position + repair.position
        code = FindingCode.CRC_MISMATCH if stop.repair is None else stop.code
        self.result.repairs.append(Finding(code, Severity.WARNING, place, header.base_offset, detail, path))
        content, end = self._tree.files[path], stop.position + size
        byte = Literal(repaired[repair.position : repair.position + 1])  # the only one that differs
        return [*content.slice(stop.position, place).parts, byte, *content.slice(place + 1, end).parts], end


def _epoch_of(header: AnyHeader) -> int | None:
    return header.partition_leader_epoch if isinstance(header, BatchHeader) else None


def salvage(
    tree: Tree, directory: str, *, start: int = 0, repair: Proof | None = None, resume: bool = True,
    looks_inside: bool = False,
) -> SoundLog:  # fmt: skip
    """Return the parts of a partition that can be kept, from the segment that holds offset `start` on; earlier segments
    are kept whole. Nothing is written.

    `repair` is the weakest proof that suffices to correct a flipped bit (None: never correct). With `resume` the log
    continues after damage that cannot be repaired; otherwise it ends there. With `looks_inside`, batches whose records
    cannot be read are removed too. Raises `StorageError` if a log cannot be read.
    """
    walk = _Salvage(tree, repair, resume, looks_inside)
    walk_segments(tree, directory, start, walk.result.sizes, walk.segment)
    return walk.result
